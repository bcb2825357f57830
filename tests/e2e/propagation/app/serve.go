package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"strconv"
	"strings"
)

// What one request was on the wire.
type arrival struct {
	Sha    string   `json:"sha"` // of all its bytes, lines of traceparent left out
	Bytes  int      `json:"bytes"`
	Values []string `json:"values"` // of its traceparent lines
	At     []int    `json:"at"`     // which lines of the request these are
}

func listen() net.Listener {
	l, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("{\"port\": %d}\n", l.Addr().(*net.TCPAddr).Port)
	return l
}

func serve() {
	l := listen()
	for {
		c, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go connection(c)
	}
}

func connection(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 64<<10)
	for {
		raw, a, last, err := request(r, c)
		if err != nil {
			if err != io.EOF || len(raw) > 0 {
				// What came is no request: the sender is told by the end of its connection, and the log.
				fmt.Printf("{\"broken\": %q, \"error\": %q}\n", cut(raw), err.Error())
			}
			return
		}
		answer, _ := json.Marshal(a)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Arrived: %s\r\nContent-Length: 2\r\n\r\n", answer)
		if !bytes.HasPrefix(raw, []byte("HEAD ")) {
			io.WriteString(c, "ok")
		}
		if last {
			return
		}
	}
}

func cut(b []byte) string {
	if len(b) > 300 {
		b = b[:300]
	}
	return string(b)
}

// Reads one request; last: it asked for the connection to be closed.
func request(r *bufio.Reader, c net.Conn) (raw []byte, a arrival, last bool, err error) {
	sum := sha256.New()
	length, chunked, expects := 0, false, false
	for n := 0; ; n++ {
		line, e := r.ReadBytes('\n')
		raw = append(raw, line...)
		if e != nil {
			return raw, a, false, e
		}
		a.Bytes += len(line)
		text := strings.TrimRight(string(line), "\r\n")
		name, value, _ := strings.Cut(text, ":")
		name, value = strings.ToLower(name), strings.TrimSpace(value)
		if n == 0 && !strings.HasSuffix(text, " HTTP/1.1") {
			return raw, a, false, fmt.Errorf("no request line: %q", cut(line))
		}
		if n > 0 && name == "traceparent" {
			a.Values = append(a.Values, value)
			a.At = append(a.At, n)
			a.Bytes -= len(line)
			continue
		}
		sum.Write(line)
		switch {
		case text == "":
			if expects {
				io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
			}
			n, e := body(r, sum, length, chunked)
			a.Bytes += n
			a.Sha = hex.EncodeToString(sum.Sum(nil))
			return raw, a, last, e
		case name == "content-length":
			length, _ = strconv.Atoi(value)
		case name == "transfer-encoding":
			chunked = value == "chunked"
		case name == "expect":
			expects = value == "100-continue"
		case name == "connection":
			last = value == "close"
		}
	}
}

// Reads a body into sum, framing included.
func body(r *bufio.Reader, sum io.Writer, length int, chunked bool) (int, error) {
	if !chunked {
		n, err := io.CopyN(sum, r, int64(length))
		return int(n), err
	}
	total := 0
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return total, err
		}
		io.WriteString(sum, line)
		total += len(line)
		size, err := strconv.ParseInt(strings.TrimSpace(line), 16, 64)
		if err != nil {
			return total, err
		}
		n, err := io.CopyN(sum, r, size+2)
		total += int(n)
		if err != nil || size == 0 {
			return total, err
		}
	}
}
