package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"net"
	"sort"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

type stream struct {
	arrival
	fields   []string
	body     hash.Hash
	data     int
	rpc, got bool // got: its first block
	head     bool
}

type server2 struct {
	c       net.Conn
	fr      *http2.Framer
	dec     *hpack.Decoder
	streams map[uint32]*stream
	block   []byte
}

// A connection of HTTP/2, frame by frame. An answer tells what arrived; calls of gRPC get theirs as gRPC has it.
func connection2(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 64<<10)
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(r, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	s := &server2{c: c, fr: http2.NewFramer(c, r), dec: hpack.NewDecoder(4096, nil), streams: map[uint32]*stream{}}
	s.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20},
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
	s.fr.WriteWindowUpdate(0, 1<<30)
	for {
		f, err := s.fr.ReadFrame()
		if err == nil {
			err = s.frame(f)
		}
		if err != nil {
			if err != io.EOF && !strings.Contains(err.Error(), "reset by peer") {
				fmt.Printf("{\"broken\": %q}\n", err.Error())
			}
			return
		}
	}
}

func (s *server2) frame(f http2.Frame) error {
	id := f.Header().StreamID
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return s.fr.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return s.fr.WritePing(true, f.Data)
		}
	case *http2.RSTStreamFrame:
		delete(s.streams, id)
	case *http2.HeadersFrame:
		if s.streams[id] == nil {
			s.streams[id] = &stream{body: sha256.New()}
		}
		s.block = append(s.block[:0], f.HeaderBlockFragment()...)
		if f.StreamEnded() {
			defer func() { s.answer(id) }()
		}
		if f.HeadersEnded() {
			return s.headers(id)
		}
		return s.continued(id)
	case *http2.DataFrame:
		st := s.streams[id]
		if st == nil {
			return nil
		}
		st.body.Write(f.Data())
		st.data += len(f.Data())
		if n := uint32(f.Header().Length); n > 0 {
			s.fr.WriteWindowUpdate(0, n)
			s.fr.WriteWindowUpdate(id, n)
		}
		if f.StreamEnded() {
			s.answer(id)
		}
	case *http2.GoAwayFrame:
		return io.EOF
	}
	return nil
}

func (s *server2) continued(id uint32) error {
	for {
		f, err := s.fr.ReadFrame()
		if err != nil {
			return err
		}
		more, ok := f.(*http2.ContinuationFrame)
		if !ok || more.Header().StreamID != id {
			return fmt.Errorf("no continuation: %v", f)
		}
		s.block = append(s.block, more.HeaderBlockFragment()...)
		if more.HeadersEnded() {
			return s.headers(id)
		}
	}
}

func (s *server2) headers(id uint32) error {
	fields, err := s.dec.DecodeFull(s.block)
	if err != nil {
		return fmt.Errorf("header block: %w", err)
	}
	st, regular := s.streams[id], false
	for _, f := range fields {
		switch {
		case f.Name != strings.ToLower(f.Name):
			st.Wrong = "capital letters: " + f.Name
		case f.IsPseudo() && (regular || st.got):
			st.Wrong = "late " + f.Name
		case f.Name == "traceparent":
			st.Values = append(st.Values, f.Value)
			if st.got {
				st.Wrong = "traceparent in a trailer"
			}
		case f.Name == "grpc-timeout":
			st.fields = append(st.fields, f.Name)
		default:
			st.fields = append(st.fields, fmt.Sprint(st.got, f.Name, ": ", f.Value))
			st.head = st.head || (f.Name == ":method" && f.Value == "HEAD")
			st.rpc = st.rpc || (f.Name == "content-type" && f.Value == "application/grpc") || strings.HasPrefix(f.Value, "application/grpc+")
		}
		regular = regular || !f.IsPseudo()
	}
	st.got = true
	return nil
}

func (s *server2) answer(id uint32) {
	st := s.streams[id]
	if st == nil {
		return
	}
	delete(s.streams, id)
	sort.Strings(st.fields)
	sum := sha256.New()
	fmt.Fprintln(sum, st.fields, st.data, hex.EncodeToString(st.body.Sum(nil)))
	st.Sha = hex.EncodeToString(sum.Sum(nil))
	text, _ := json.Marshal(st.arrival)
	if !st.rpc {
		s.send(id, st.head, ":status", "200", "x-arrived", string(text))
		if !st.head {
			s.fr.WriteData(id, true, []byte("ok"))
		}
		return
	}
	message := make([]byte, 5, 5+len(text))
	binary.BigEndian.PutUint32(message[1:], uint32(len(text)))
	s.send(id, false, ":status", "200", "content-type", "application/grpc")
	s.fr.WriteData(id, false, append(message, text...))
	s.send(id, true, "grpc-status", "0")
}

func (s *server2) send(id uint32, end bool, pairs ...string) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	enc.SetMaxDynamicTableSize(0)
	for i := 0; i < len(pairs); i += 2 {
		enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1], Sensitive: true})
	}
	s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: end, EndHeaders: true})
}
