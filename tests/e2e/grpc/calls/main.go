// A gRPC program that is server and client, and tells what it saw of each call. It is told what to do by lines of JSON on a TCP
// port. No generated code: messages are bytes, and every method of the service is its own, "/truth.Calls/U17", so that a span's
// rpc.method names the call.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const methods = 1200 // of each kind

type raw struct{ b []byte }

type codec struct{}

func (codec) Marshal(v interface{}) ([]byte, error) { return v.(*raw).b, nil }
func (codec) Unmarshal(b []byte, v interface{}) error {
	v.(*raw).b = append([]byte(nil), b...)
	return nil
}
func (codec) Name() string { return "proto" }

// ---- the server

var self string // this server's address

// What a command asks for: "ok", "code 5", "plain", "wrapped 5", "context", "sleep 50 ok", ...
func answer(ctx context.Context, command string) error {
	words := strings.Fields(command)
	if len(words) == 0 {
		return nil
	}
	n := 0
	if len(words) > 1 {
		n, _ = strconv.Atoi(words[1])
	}
	switch words[0] {
	case "code":
		return status.Error(codes.Code(n), "as asked")
	case "plain":
		return errors.New("a plain error")
	case "wrapped":
		return fmt.Errorf("wrapped: %w", status.Error(codes.Code(n), "inside"))
	case "context":
		<-ctx.Done()
		return ctx.Err()
	case "sleep":
		time.Sleep(time.Duration(n) * time.Millisecond)
		return answer(ctx, strings.Join(words[2:], " "))
	case "chain", "forward": // calls on, on behalf of its own caller: "chain U5 ok" asks for "ok"
		cc, err := connection(self)
		if err != nil {
			return err
		}
		if words[0] == "forward" { // as proxies do
			md, _ := metadata.FromIncomingContext(ctx)
			ctx = metadata.NewOutgoingContext(ctx, metadata.MD{"traceparent": md.Get("traceparent")})
		}
		return cc.Invoke(ctx, "/truth.Calls/"+words[1], &raw{[]byte(strings.Join(words[2:], " "))}, new(raw))
	case "unavailable": // the first n attempts of a call
		if attempts(ctx) <= n {
			return status.Error(codes.Unavailable, "try again")
		}
	}
	return nil
}

var tries sync.Map

func attempts(ctx context.Context) int {
	md, _ := metadata.FromIncomingContext(ctx)
	n := new(int32)
	if ids := md.Get("call"); len(ids) > 0 {
		was, _ := tries.LoadOrStore(ids[0], n)
		n = was.(*int32)
	}
	return int(atomic.AddInt32(n, 1))
}

// What the server's methods have returned, by name: the last one.
var served sync.Map

// Releases between 1.40 and 1.50 began to answer CANCELLED and DEADLINE_EXCEEDED for a context's errors.
var knowsContexts = func() bool {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if parts := strings.Split(m.Version, "."); m.Path == "google.golang.org/grpc" {
			minor, _ := strconv.Atoi(parts[1])
			return minor > 40
		}
	}
	panic("no gRPC")
}()

func returned(method string, err error) error {
	code := codes.Unknown
	if s, ok := status.FromError(err); ok {
		code = s.Code()
	} else if knowsContexts && err == context.Canceled {
		code = codes.Canceled
	} else if knowsContexts && err == context.DeadlineExceeded {
		code = codes.DeadlineExceeded
	}
	served.Store(method, int(code))
	return err
}

// What a method has returned, which may be a moment after its client has gone; -1: nothing.
func servedAs(method string) int {
	for i := 0; i < 30; i++ {
		if code, ok := served.Load(method); ok {
			return code.(int)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return -1
}

func unary(_ interface{}, ctx context.Context, decode func(interface{}) error, intercept grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(raw)
	if err := decode(in); err != nil {
		return nil, err
	}
	method, _ := grpc.Method(ctx)
	if err := returned(method, answer(ctx, string(in.b))); err != nil {
		return nil, err
	}
	return in, nil
}

func streamed(handler grpc.StreamHandler) grpc.StreamHandler {
	return func(srv interface{}, s grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(s)
		return returned(method, handler(srv, s))
	}
}

// Every stream: each message is a command and is answered, except that an error ends it.
func stream(_ interface{}, s grpc.ServerStream) error {
	for {
		in := new(raw)
		if err := s.RecvMsg(in); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := answer(s.Context(), string(in.b)); err != nil {
			return err
		}
		if err := s.SendMsg(in); err != nil {
			return err
		}
	}
}

// A client's stream gets one answer, at its end.
func collect(_ interface{}, s grpc.ServerStream) error {
	var last raw
	for {
		in := new(raw)
		if err := s.RecvMsg(in); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		last = *in
		if err := answer(s.Context(), string(in.b)); err != nil {
			return err
		}
	}
	return s.SendMsg(&last)
}

var kinds = map[string]*grpc.StreamDesc{
	"S": {ServerStreams: true, Handler: streamed(stream)}, "C": {ClientStreams: true, Handler: streamed(collect)},
	"B": {ServerStreams: true, ClientStreams: true, Handler: streamed(stream)},
}

func register(s *grpc.Server) {
	desc := &grpc.ServiceDesc{ServiceName: "truth.Calls", HandlerType: (*interface{})(nil)}
	for i := 0; i < methods; i++ {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: "U" + strconv.Itoa(i), Handler: unary})
		for kind, d := range kinds {
			one := *d
			one.StreamName = kind + strconv.Itoa(i)
			desc.Streams = append(desc.Streams, one)
		}
	}
	s.RegisterService(desc, struct{}{})
}

// ---- the client

// One call: kind U, S, C or B; what the server is told; how the client behaves.
type call struct {
	Kind, Command string
	Method        string // "" is one of its own
	Target        string // "" is the first connection
	Messages      int    // of a stream, 1 if 0
	Timeout       int    // ms, 0: none
	Cancel        int    // ms after the first answer, 0: never
	Trace         string // a traceparent
	State         string
	Metadata      []string // key, value, key, value...
	Pause         int      // ms between the messages
}

type truth struct {
	Method, Kind, Command, Target, Trace, State string
	Timeout                                     int
	Code, Served                                int
	Start, End                                  int64
}

var next int32
var conns sync.Map

func hexes(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func connection(target string) (*grpc.ClientConn, error) {
	if c, ok := conns.Load(target); ok {
		return c.(*grpc.ClientConn), nil
	}
	credentials := grpc.WithInsecure()         // in every release
	if strings.Contains(target, "localhost") { // the server behind net/http
		credentials = unverified()
	}
	c, err := grpc.Dial(target, credentials, grpc.WithDefaultServiceConfig(retries), grpc.WithContextDialer(dial))
	if err != nil {
		return nil, err
	}
	was, loaded := conns.LoadOrStore(target, c)
	if loaded {
		c.Close()
	}
	return was.(*grpc.ClientConn), nil
}

const retries = `{"methodConfig": [{"name": [{"service": "retry.Calls"}, {"service": "truth.Calls", "method": "U999"}],
	"retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "0.05s", "backoffMultiplier": 2,
	"retryableStatusCodes": ["UNAVAILABLE"]}}]}`

func make1(c call, main string) (truth, error) {
	if c.Target == "" {
		c.Target = main
	}
	if c.Messages == 0 || c.Kind == "S" {
		c.Messages = 1
	}
	method := c.Method
	if method == "" {
		method = "/truth.Calls/" + c.Kind + strconv.Itoa(int(atomic.AddInt32(&next, 1)))
	}
	cc, err := connection(c.Target)
	if err != nil {
		return truth{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if c.Timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(c.Timeout)*time.Millisecond)
		defer cancel()
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "call", hexes(8))
	if c.Trace != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", c.Trace)
	}
	if c.State != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "tracestate", c.State)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, c.Metadata...)
	t := truth{Method: method, Kind: c.Kind, Command: c.Command, Target: c.Target, Trace: c.Trace, State: c.State, Timeout: c.Timeout}
	t.Start = time.Now().UnixNano()
	if c.Kind == "U" {
		if c.Cancel > 0 {
			time.AfterFunc(time.Duration(c.Cancel)*time.Millisecond, cancel)
		}
		err = cc.Invoke(ctx, method, &raw{[]byte(c.Command)}, new(raw))
	} else {
		err = streaming(ctx, cancel, cc, method, c)
	}
	t.End = time.Now().UnixNano()
	t.Code, t.Served = int(status.Code(err)), servedAs(method)
	return t, nil
}

func streaming(ctx context.Context, cancel func(), cc *grpc.ClientConn, method string, c call) error {
	desc := *kinds[c.Kind]
	s, err := cc.NewStream(ctx, &desc, method)
	if err != nil {
		return err
	}
	if c.Cancel > 0 {
		time.AfterFunc(time.Duration(c.Cancel)*time.Millisecond, cancel)
	}
	for i := 0; i < c.Messages; i++ {
		time.Sleep(time.Duration(c.Pause) * time.Millisecond)
		if err := s.SendMsg(&raw{[]byte(c.Command)}); err != nil && err != io.EOF {
			return err
		}
		if c.Kind == "B" {
			if err := s.RecvMsg(new(raw)); err != nil {
				return ended(err)
			}
		}
	}
	s.CloseSend()
	if c.Kind == "C" {
		return s.RecvMsg(new(raw))
	}
	for {
		if err := s.RecvMsg(new(raw)); err != nil {
			return ended(err)
		}
	}
}

func ended(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// ---- the control port: {"workers": 8, "calls": [...]} -> {"truths": [...], "errors": [...]}

type order struct {
	Workers int
	Repeat  int // each call so often
	Calls   []call
}

type report struct {
	Truths []truth
	Errors []string
}

func carryOut(o order, main string) report {
	var r report
	var lock sync.Mutex
	var wait sync.WaitGroup
	work := make(chan call)
	if o.Workers == 0 {
		o.Workers = 1
	}
	for i := 0; i < o.Workers; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for c := range work {
				t, err := make1(c, main)
				lock.Lock()
				if err != nil {
					r.Errors = append(r.Errors, err.Error())
				} else {
					r.Truths = append(r.Truths, t)
				}
				lock.Unlock()
			}
		}()
	}
	for i := 0; i == 0 || i < o.Repeat; i++ {
		for _, c := range o.Calls {
			work <- c
		}
	}
	close(work)
	wait.Wait()
	return r
}

func control(l net.Listener, main string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			lines := bufio.NewReader(c)
			for {
				line, err := lines.ReadBytes('\n')
				if err != nil {
					return
				}
				var o order
				var r report
				if err := json.Unmarshal(line, &o); err != nil {
					r.Errors = append(r.Errors, err.Error())
				} else {
					r = carryOut(o, main)
				}
				out, _ := json.Marshal(r)
				c.Write(append(out, '\n'))
			}
		}()
	}
}

func listen() (net.Listener, int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return l, l.Addr().(*net.TCPAddr).Port
}

func main() {
	encoding.RegisterCodec(codec{})
	server := grpc.NewServer()
	register(server)
	l, port := listen()
	go server.Serve(l)
	go server.Serve(pipe)
	over, overPort := listen()
	go serveTLS(over, server)
	self = "127.0.0.1:" + strconv.Itoa(port)
	web, webPort := listen()
	go serveWeb(web)
	socket, err := net.Listen("unix", "@truth"+strconv.Itoa(port))
	if err != nil {
		panic(err)
	}
	go server.Serve(socket)
	order, orderPort := listen()
	fmt.Printf("{\"ports\": {\"grpc\": %d, \"tls\": %d, \"web\": %d, \"control\": %d}}\n", port, overPort, webPort, orderPort)
	os.Stdout.Sync()
	control(order, self)
}
