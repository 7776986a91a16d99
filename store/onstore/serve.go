package onstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/address"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// Bounds of connections to switches.
const (
	handshakeTimeout = 10 * time.Second
	silentAfter      = 30 * time.Second // then the connection of a switch is closed; it is asked three times before
	writeTimeout     = 10 * time.Second
	maxQueued        = 4 << 20 // bytes for a switch that does not read; then its connection is closed
	maxHandled       = 64      // packets of a switch at a time; meanwhile no more are read
	packetTimeout    = 5 * time.Second
)

// Serve serves the switches that connect to a listener, until ctx ends: OpenFlow 1.3, without TLS. This controller
// keeps nothing, so a switch may have several, each with an application of its own, or the same one.
func Serve(ctx context.Context, l net.Listener, a App, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var serving sync.WaitGroup
	defer serving.Wait()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		nc, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept switches: %w", err)
		}
		serving.Go(func() { // ends with the connection, or ctx
			s := &session{app: a, log: log}
			err := s.run(ctx, nc)
			log.Info("switch disconnected", "switch", s.Datapath, "remote", address.Peer(nc), "err", err)
		})
	}
}

// session is a connection of a switch.
type session struct {
	handshake.Handshake
	app     App
	log     *slog.Logger
	out     *ofconn.Writer
	handled chan struct{} // has as many elements as packets are handled
	running sync.WaitGroup
}

// run serves the switch until its connection ends.
func (s *session) run(ctx context.Context, nc net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	s.handled = make(chan struct{}, maxHandled)
	s.out = ofconn.NewWriter(nc, maxQueued, writeTimeout, nil)
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer func() { cancel(); s.running.Wait(); stop(); s.out.Close() }()
	late := time.AfterFunc(handshakeTimeout, func() { nc.Close() })
	defer late.Stop()
	in := ofconn.NewReader(ofconn.NewWatched(nc, silentAfter))
	for {
		batch, err := in.Next()
		if err != nil {
			return err
		}
		for len(batch) > 0 {
			n := int(binary.BigEndian.Uint16(batch[2:]))
			if err := s.message(ctx, batch[:n:n], late); err != nil {
				return err
			}
			batch = batch[n:]
		}
	}
}

// message handles a message.
func (s *session) message(ctx context.Context, msg []byte, late *time.Timer) error {
	if s.Done && msg[1] == of13.TypePacketIn {
		return s.packetIn(ctx, msg)
	}
	before := s.Done
	answers, err := s.Input(nil, msg)
	if err != nil {
		return err
	}
	if s.Done && !before {
		if s.Version != openflow.Version13 {
			return fmt.Errorf("it speaks OpenFlow version %d: enable 1.3 (4)", s.Version)
		}
		late.Stop()
		s.log.Info("switch connected", "switch", s.Datapath)
		s.running.Go(func() { s.ping(ctx) }) // ends with the connection
		miss := of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer)
		answers = add(answers, of13.FlowMod{}, miss)
	}
	return s.out.Send(answers)
}

// ping asks the switch from time to time whether it is there.
func (s *session) ping(ctx context.Context) {
	tick := time.NewTicker(silentAfter / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = s.out.Send(handshake.Bare(nil, openflow.Version13, openflow.TypeEchoRequest, 0)) // else it has ended
		case <-ctx.Done():
			return
		}
	}
}

// packetIn has the application handle a packet, beside others.
func (s *session) packetIn(ctx context.Context, msg []byte) error {
	in := new(of13.PacketIn)
	if err := in.Decode(append([]byte(nil), msg...)); err != nil {
		return err
	}
	port, _ := in.Match.InPort()
	headers, ok := packet.Parse(in.Data)
	if !ok {
		return nil
	}
	p := Packet{s.Datapath, port, headers}
	select {
	case s.handled <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.running.Go(func() { // ends in packetTimeout
		defer func() { <-s.handled }()
		ctx, cancel := context.WithTimeout(ctx, packetTimeout)
		defer cancel()
		r, err := s.app.Handle(ctx, &p)
		if err != nil {
			s.log.Warn("packet not handled", "switch", s.Datapath, "from", p.Src, "err", err)
			return
		}
		_ = s.out.Send(r.messages(nil, &p, in)) // else the switch is gone, or does not read
	})
	return nil
}
