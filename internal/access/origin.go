package access

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/holdfast-sdn/holdfast/internal/config"
)

// sites keeps web pages of other sites from using a controller through the browser of somebody who reaches it, or whose
// certificate the browser has. Programs do not say of which site they are, and are not affected.
type sites struct {
	open  bool            // nobody has to say who one is
	names map[string]bool // of the machines of the cluster, in small letters
}

// sitesOf returns the sites of a cluster.
func sitesOf(cluster *config.Cluster, open bool) sites {
	s := sites{open, map[string]bool{"localhost": true, "": true}} // "": a program of HTTP/1.0 names no host
	for _, c := range cluster.Controllers {
		for _, address := range []string{c.API, c.REST} {
			s.names[hostOf(address)] = true
		}
	}
	if name, err := os.Hostname(); err == nil { // often a name of 127.0.1.1
		s.names[strings.ToLower(name)] = true
	}
	return s
}

// hostOf returns the host of an address, which may have a port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(address, "[]")), ".")
}

var errSite = errors.New("a page of another site may not do this: open one of this controller, or send the request " +
	"from a program; a proxy in between must pass on the header Host")

// changing refuses requests of pages of other sites, except GET, HEAD and OPTIONS, whose answers a page cannot read.
var changing = http.NewCrossOriginProtection()

// check refuses what a page of another site has a browser send.
func (s sites) check(r *http.Request) error {
	if changing.Check(r) != nil {
		return errSite
	}
	if origin := r.Header.Get("Origin"); origin != "" && r.Header.Get("Upgrade") != "" { // of a WebSocket, by GET
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return errSite
		}
	}
	// The browser takes a page of any name for one of this site, once that name has the address of this port (DNS
	// rebinding). Ports at loopback addresses rely on it that no others reach them.
	at, is := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !s.open || !is || !at.IP.IsLoopback() {
		return nil
	}
	if host := hostOf(r.Host); net.ParseIP(host) == nil && !s.names[host] && !strings.HasSuffix(host, ".localhost") {
		return fmt.Errorf("the host %q of the URL is not one of the cluster file: use an IP address or localhost", host)
	}
	return nil
}
