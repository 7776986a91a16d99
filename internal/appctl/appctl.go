// Package appctl sends commands to a running ovs-vswitchd over its control socket, as ovs-appctl does but without
// starting a process, and parses its output about BFD. It does not configure switches: package ovsdb does.
package appctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Client is a connection to the control socket of an Open vSwitch. It is for one goroutine. After an error that is not
// ErrRefused only Close is of use.
type Client struct {
	conn  *net.UnixConn
	dec   *json.Decoder
	limit time.Duration
}

// ErrRefused is wrapped by the error of a command that the switch refuses.
var ErrRefused = errors.New("refused")

// Dial connects to a control socket, such as /run/openvswitch/ovs-vswitchd.1234.ctl. Given a pid file, such as
// /run/openvswitch/ovs-vswitchd.pid, it connects to the control socket of that process in the same folder. limit is how
// long the switch may take to answer a call.
func Dial(path string, limit time.Duration) (*Client, error) {
	if name, ok := strings.CutSuffix(path, ".pid"); ok {
		pid, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("process of a switch (does ovs-vswitchd run?): %w", err)
		}
		path = fmt.Sprintf("%s.%s.ctl", name, strings.TrimSpace(string(pid)))
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control socket of a switch: %w", err)
	}
	return &Client{conn, json.NewDecoder(conn), limit}, nil
}

// PID is the process that listens: the switch.
func (c *Client) PID() (int, error) {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET,
			unix.SO_PEERCRED)
	}); e != nil {
		return 0, e
	}
	if err != nil {
		return 0, fmt.Errorf("whose control socket this is: %w", err)
	}
	return int(cred.Pid), nil
}

// Call has the switch carry out a command, and returns what it prints.
func (c *Client) Call(command string, args ...string) (string, error) {
	if err := c.conn.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return "", err
	}
	request, err := json.Marshal(map[string]any{"id": 0, "method": command, "params": append([]string{}, args...)})
	if err == nil {
		_, err = c.conn.Write(request)
	}
	var answer struct{ Result, Error *string }
	if err == nil {
		err = c.dec.Decode(&answer)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", command, err)
	case answer.Error != nil:
		return "", fmt.Errorf("%s: %w: %s", command, ErrRefused, strings.TrimSpace(*answer.Error))
	case answer.Result == nil:
		return "", nil
	}
	return *answer.Result, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
