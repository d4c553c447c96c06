package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// httpConn is one HTTP/1.1 connection. net/http's client takes as much processor time for a request as the functions
// that are measured; this one sends bytes that were made beforehand, and reads of an answer what it needs to know.
type httpConn struct {
	addr string
	r    *bufio.Reader

	mu   sync.Mutex // for changes of conn, and for interrupt
	conn net.Conn   // nil after an error: the next request connects anew
}

func dialHTTP(ctx context.Context, addr string) (*httpConn, error) {
	c := &httpConn{addr: addr}
	return c, c.dial(ctx)
}

func (c *httpConn) dial(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.conn = conn
	c.mu.Unlock()
	if c.r == nil {
		c.r = bufio.NewReaderSize(conn, 1024)
	} else {
		c.r.Reset(conn)
	}
	return nil
}

// do sends a request and returns the status of its answer. After an error the request may have been carried out or not.
func (c *httpConn) do(ctx context.Context, request []byte) (status int, err error) {
	if c.conn == nil {
		if err := c.dial(ctx); err != nil {
			return 0, err
		}
	}
	if _, err = c.conn.Write(request); err == nil {
		status, err = c.answer()
	}
	if err != nil {
		c.close()
	}
	return status, err
}

// interrupt makes a request under way fail. It may be called at any time.
func (c *httpConn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
	}
}

func (c *httpConn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

var errAnswer = errors.New("not an HTTP/1.1 answer")

// answer reads an answer to its end.
func (c *httpConn) answer() (status int, err error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, errAnswer
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, errAnswer
	}
	length, chunked, closing := 0, false, false
	for {
		if line, err = c.line(); err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, errAnswer
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		case bytes.EqualFold(name, []byte("Connection")):
			closing = bytes.EqualFold(value, []byte("close"))
		}
	}
	if chunked {
		err = c.chunks()
	} else {
		_, err = c.r.Discard(length)
	}
	if closing {
		c.close()
	}
	return status, err
}

func (c *httpConn) chunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return fmt.Errorf("%w: chunk size %q", errAnswer, line)
		}
		if _, err := c.r.Discard(int(size) + len("\r\n")); err != nil {
			return err
		}
		if size == 0 {
			return nil
		}
	}
}

// line reads a line without its end. It is valid until the next read.
func (c *httpConn) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return bytes.TrimRight(line, "\r\n"), err
}

// post is a POST request without a body.
func post(path string) []byte {
	return []byte("POST " + path + " HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\n\r\n")
}

// get is a GET request.
func get(path string) []byte { return []byte("GET " + path + " HTTP/1.1\r\nHost: bench\r\n\r\n") }
