package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// A connection of HTTP/1: every byte of a request but its traceparent lines goes into the sum.
func connection1(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 64<<10)
	for {
		a, head, last, err := request(r, c)
		if err != nil {
			if err != io.EOF {
				fmt.Printf("{\"broken\": %q}\n", err.Error())
			}
			return
		}
		answer, _ := json.Marshal(a)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Arrived: %s\r\nContent-Length: 2\r\n\r\n", answer)
		if !head {
			io.WriteString(c, "ok")
		}
		if last {
			return
		}
	}
}

func request(r *bufio.Reader, c net.Conn) (a arrival, head, last bool, err error) {
	sum := sha256.New()
	length, chunked, expects := 0, false, false
	for n := 0; ; n++ {
		line, e := r.ReadString('\n')
		if e != nil {
			if e == io.EOF && len(line) > 0 {
				e = io.ErrUnexpectedEOF
			}
			return a, head, last, e
		}
		text := strings.TrimSuffix(line, "\r\n")
		if text == line || (n == 0 && !strings.HasSuffix(text, " HTTP/1.1")) {
			return a, head, last, fmt.Errorf("line %d: %.100q", n, line)
		}
		name, value, _ := strings.Cut(text, ":")
		name, value = strings.ToLower(name), strings.TrimSpace(value)
		if n > 0 && name == "traceparent" {
			a.Values = append(a.Values, value)
			continue
		}
		io.WriteString(sum, line)
		switch {
		case n == 0:
			head = strings.HasPrefix(line, "HEAD ")
		case text == "":
			if expects {
				io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
			}
			err = body(r, sum, length, chunked)
			a.Sha = hex.EncodeToString(sum.Sum(nil))
			return a, head, last, err
		case name == "content-length":
			length, _ = strconv.Atoi(value)
		case name == "transfer-encoding":
			chunked = value == "chunked"
		case name == "expect":
			expects = true
		case name == "connection":
			last = value == "close"
		}
	}
}

// Reads a body into sum, framing included.
func body(r *bufio.Reader, sum io.Writer, length int, chunked bool) error {
	if !chunked {
		_, err := io.CopyN(sum, r, int64(length))
		return err
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(strings.TrimSpace(line), 16, 64)
		if err != nil {
			return err
		}
		io.WriteString(sum, line)
		if _, err = io.CopyN(sum, r, size+2); err != nil || size == 0 {
			return err
		}
	}
}
