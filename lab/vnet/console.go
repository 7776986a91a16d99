package vnet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Prompt stands before each command of the console.
const Prompt = "vnet> "

const (
	pingInterval    = 200 * time.Millisecond // of the command ping
	trafficInterval = 20 * time.Millisecond
	pingPatience    = 2 * time.Second // how long one waits for the last answer
	trafficPatience = 5 * time.Second // more: it is for counting what is lost
	defaultPings    = 3
	maxPings        = 10_000
)

// console runs the commands of a reader.
type console struct {
	n       *Network
	out     io.Writer
	traffic *traffic // nil: there is none
}

// Console runs commands, one a line, until in ends, the command exit or the end of ctx.
func (n *Network) Console(ctx context.Context, in io.Reader, out io.Writer) error {
	c := &console{n: n, out: out}
	defer c.end()
	ended := make(chan struct{})
	defer close(ended)
	lines := readLines(in, ended)
	for {
		fmt.Fprint(out, Prompt)
		select {
		case <-ctx.Done():
			return nil
		case line, more := <-lines:
			if !more {
				fmt.Fprintln(out)
				return nil
			}
			words := strings.Fields(line)
			if len(words) == 1 && words[0] == "exit" {
				return nil
			}
			if err := c.run(ctx, words); onlyEnded(err) != nil {
				fmt.Fprintf(out, "%v\n", err)
			}
		}
	}
}

// readLines reads beside the console, which may have to end while nobody types. Its goroutine ends with the reader, or
// when a line comes that nobody wants any more.
func readLines(in io.Reader, ended <-chan struct{}) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-ended:
				return
			}
		}
	}()
	return lines
}

const help = `nodes               switches and hosts
links               links, and whether they are up
ping h1 h2 [COUNT]  ping from a host to another
pingall             ping from each host to each other
start               each host pings the next one 50 times a second, until stop
stop                ends that, and counts the answers
link s1 s2 down     cuts a link; up mends it
exit                ends the network
`

func (c *console) run(ctx context.Context, words []string) error {
	if len(words) == 0 {
		return nil
	}
	arguments := words[1:]
	switch words[0] {
	case "help":
		_, err := io.WriteString(c.out, help)
		return err
	case "nodes":
		c.nodes()
		return nil
	case "links":
		return c.links()
	case "ping":
		return c.ping(ctx, arguments)
	case "pingall":
		return c.pingAll(ctx)
	case "start":
		return c.start(ctx)
	case "stop":
		return c.stop(ctx)
	case "link":
		return c.link(arguments)
	}
	return fmt.Errorf("there is no command %s: see help", words[0])
}

func (c *console) nodes() {
	for i := range c.n.switches {
		fmt.Fprintf(c.out, "%s  datapath id %016x\n", switchName(i), i+1)
	}
	for _, h := range c.n.hosts {
		fmt.Fprintf(c.out, "%s  10.0.0.%d  %v\n", h.name, h.IPv4[3], h.MAC)
	}
}

func (c *console) links() error {
	for i := range c.n.links {
		l := &c.n.links[i]
		state := "up"
		if l.down {
			state = "down"
		}
		if _, err := fmt.Fprintf(c.out, "%s %s %s\n", l.ends[0], l.ends[1], state); err != nil {
			return err
		}
	}
	return nil
}

var errTraffic = errors.New("traffic runs: stop it first")

func (c *console) ping(ctx context.Context, words []string) error {
	if len(words) < 2 || len(words) > 3 {
		return errors.New("use ping h1 h2, or ping h1 h2 COUNT")
	}
	from, err := c.n.host(words[0])
	if err != nil {
		return err
	}
	to, err := c.n.host(words[1])
	if err != nil {
		return err
	}
	count := defaultPings
	if len(words) == 3 {
		if count, err = strconv.Atoi(words[2]); err != nil || count < 1 || count > maxPings {
			return fmt.Errorf("%s pings: use 1 to %d", words[2], maxPings)
		}
	}
	if c.traffic != nil {
		return errTraffic
	}
	if err := from.pings(ctx, to, count, pingInterval); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s to %s: %v\n", from.name, to.name, from.settle(ctx, pingPatience))
	return err
}

func (c *console) pingAll(ctx context.Context) error {
	if c.traffic != nil {
		return errTraffic
	}
	for _, from := range c.n.hosts {
		for _, to := range c.n.hosts {
			if from == to {
				continue
			}
			err := from.pings(ctx, to, 1, pingInterval)
			if ctx.Err() != nil {
				return c.report(ctx, 0) // so that nothing is left of what was counted
			}
			if err != nil { // no answer by ARP
				from.lose()
			}
		}
	}
	return c.report(ctx, pingPatience)
}

// report prints what all hosts have counted, after so long at most.
func (c *console) report(ctx context.Context, limit time.Duration) error {
	var total counts
	began := time.Now()
	for _, h := range c.n.hosts {
		total = total.plus(h.settle(ctx, limit-time.Since(began)))
	}
	_, err := fmt.Fprintf(c.out, "%v\n", total)
	return err
}

// traffic is hosts that ping each other.
type traffic struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func (c *console) start(ctx context.Context) error {
	if c.traffic != nil {
		return errTraffic
	}
	for i, from := range c.n.hosts { // first, so that it does not count
		if _, err := from.resolve(ctx, c.next(i).IPv4); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	c.traffic = &traffic{cancel: cancel}
	for i, from := range c.n.hosts {
		to := c.next(i)
		c.traffic.running.Go(func() { _ = from.pings(ctx, to, 0, trafficInterval) }) // all are resolved: ctx has ended
	}
	_, err := fmt.Fprintf(c.out, "%d hosts ping each other\n", len(c.n.hosts))
	return err
}

// next is the host that host i pings.
func (c *console) next(i int) *host { return c.n.hosts[(i+1)%len(c.n.hosts)] }

func (c *console) stop(ctx context.Context) error {
	if c.traffic == nil {
		return errors.New("no traffic runs: start it first")
	}
	c.end()
	return c.report(ctx, trafficPatience)
}

// end ends the traffic, if there is any.
func (c *console) end() {
	if c.traffic != nil {
		c.traffic.cancel()
		c.traffic.running.Wait()
		c.traffic = nil
	}
}

func (c *console) link(words []string) error {
	if len(words) != 3 || words[2] != "up" && words[2] != "down" {
		return errors.New("use link s1 s2 down, or up")
	}
	l, err := c.n.link(words[0], words[1])
	if err != nil {
		return err
	}
	l.down = words[2] == "down"
	l.SetUp(!l.down)
	return nil
}
