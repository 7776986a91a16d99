package controller

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller/feed"
)

// BenchmarkWatch is the processor time of a message of 8 KB to a watcher over TLS, of both ends. That of the client is
// always the same.
func BenchmarkWatch(b *testing.B) {
	const watchers = 100
	ending, end := context.WithCancel(b.Context())
	a := newAPI(&Controller{log: quiet, ending: ending, journal: newJournal("c1")})
	a.web = a.server()
	certificate := httptest.NewTLSServer(nil)
	defer certificate.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificate.TLS.Certificates,
		DynamicRecordSizingDisabled: true})
	if err != nil {
		b.Fatal(err)
	}
	a.start(l)
	var waking sync.WaitGroup
	waking.Go(func() { a.wake(ending) })
	defer waking.Wait()
	defer a.close()
	defer end()
	set := func(n int) {
		text := strings.Repeat("x", 8000)
		a.feed.Set([]feed.Item{{Kind: api.Kind_KIND_HOST, State: n, Change: func() *api.Change {
			return &api.Change{What: &api.Change_Host{Host: &api.Host{Mac: text}}}
		}}}, true, nil)
	}
	set(-1)
	told := make(chan struct{}, watchers)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for range watchers {
		go readWatch(client, l.Addr(), told)
		<-told
	}
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before) // it can
	for n := 0; b.Loop(); n++ {
		set(n)
		for range watchers {
			<-told
		}
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(used)/1e3/float64(b.N*watchers), "cpu-µs/message")
}

// readWatch watches until the connection ends, and tells of each message.
func readWatch(client *http.Client, at net.Addr, told chan<- struct{}) {
	r, err := client.Post("https://"+at.String()+api.ClusterWatchProcedure, "application/connect+proto",
		bytes.NewReader(make([]byte, 5)))
	if err != nil {
		panic(err)
	}
	defer r.Body.Close()
	for head := make([]byte, 5); ; {
		if _, err := io.ReadFull(r.Body, head); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, r.Body, int64(binary.BigEndian.Uint32(head[1:]))); err != nil {
			return
		}
		told <- struct{}{}
	}
}
