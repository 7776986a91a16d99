package outage

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// controlTimeout bounds how long a switch may take to answer.
const controlTimeout = 10 * time.Second

// control is a connection to the control socket of an Open vSwitch, as ovs-appctl has one. It starts no processes, which would disturb what is measured.
type control struct {
	conn *net.UnixConn
	dec  *json.Decoder
}

func dialControl(path string) (*control, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control socket of a switch: %w", err)
	}
	return &control{conn, json.NewDecoder(conn)}, nil
}

// pid is the process that listens: the switch.
func (c *control) pid() (int, error) {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return 0, e
	}
	if err != nil {
		return 0, fmt.Errorf("whose control socket this is: %w", err)
	}
	return int(cred.Pid), nil
}

// call has the switch carry out a command, and returns what it prints.
func (c *control) call(command string, args ...string) (string, error) {
	if err := c.conn.SetDeadline(time.Now().Add(controlTimeout)); err != nil {
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
		return "", fmt.Errorf("%s: %s", command, strings.TrimSpace(*answer.Error))
	case answer.Result == nil:
		return "", nil
	}
	return *answer.Result, nil
}
