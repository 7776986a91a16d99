package ryu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// confined starts a process that runs applications. make makes its command and start starts it; both are called a
// second time where the system does not allow a process namespace. Package holdfast_ryu sets the limits.
func confined(cfg Config, make func() *exec.Cmd, start func(*exec.Cmd) error) error {
	begin := func(attr *syscall.SysProcAttr) error {
		cmd := make()
		cmd.SysProcAttr = attr
		cfg.account.become(cmd)
		return start(cmd)
	}
	if cfg.plain {
		return begin(&syscall.SysProcAttr{})
	}
	err := begin(namespace())
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
		err = begin(&syscall.SysProcAttr{}) // a container, or a limit of the system
	}
	return err
}

// namespace makes the process the first of a process namespace. It sees, signals and traces no other process of the
// machine, and what it starts ends with it. An ordinary user needs a user namespace for that, in which it keeps its id.
func namespace() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if id, group := os.Geteuid(), os.Getegid(); id != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: group, HostID: group, Size: 1}}
	}
	return attr
}

// account is the user that a process runs as. nil: the user of this process.
type account struct {
	name, home string
	id, group  uint32
	groups     []uint32
}

// findAccount returns nil for no name, and for the user of this process.
func findAccount(name string) (*account, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("ryu: user %s: %w: create it, as by useradd --system %[1]s, or change `ryu: user`", name,
			err)
	}
	a := &account{name: name, home: u.HomeDir}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("ryu: groups of user %s: %w", name, err)
	}
	for i, text := range append([]string{u.Uid, u.Gid}, ids...) {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("ryu: user %s: %w", name, err)
		}
		switch i {
		case 0:
			a.id = uint32(id)
		case 1:
			a.group = uint32(id)
		default:
			a.groups = append(a.groups, uint32(id))
		}
	}
	switch me := os.Geteuid(); {
	case uint32(me) == a.id:
		return nil, nil
	case me != 0:
		return nil, fmt.Errorf("ryu: only root can run applications as another user: run Holdfast as root, or as %s, "+
			"or leave out `ryu: user`", name)
	}
	return a, nil
}

// become has cmd run as the user, with its home.
func (a *account) become(cmd *exec.Cmd) {
	if a == nil {
		return
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.id, Gid: a.group, Groups: a.groups}
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"HOME", "USER", "LOGNAME", "XDG_CACHE_HOME"}, name)
	})
	cmd.Env = append(cmd.Env, "HOME="+a.home, "USER="+a.name, "LOGNAME="+a.name)
}
