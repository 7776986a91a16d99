package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/auditlog"
	"github.com/holdfast-sdn/holdfast/internal/clusterkey"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/incident"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/internal/token"
)

// Guard stands before the API of a controller, and before the applications over HTTP. It finds out who makes a request,
// by a certificate or by a token, refuses what that role may not do, and records what changes something. A nil Guard
// lets everybody do everything.
type Guard struct {
	open    bool // nobody has to say who one is
	tokens  *tokens
	peers   string // the token of other controllers; "": they have certificates, or need nothing
	audit   *auditlog.Log
	refused *incident.Log
	denied  refusals // that are in the audit log
	sites   sites
}

// NewGuard makes the guard of a controller, and watches the file of tokens until ctx ends. key is that of the cluster,
// or nil. What changes something is recorded in audit, which the caller closes; nil: nowhere.
func NewGuard(ctx context.Context, cluster *config.Cluster, key *clusterkey.Key, audit *auditlog.Log,
	log *slog.Logger) (*Guard, error) {
	g := &Guard{open: cluster.TLS == nil && cluster.Tokens == "", audit: audit, refused: incident.New(log)}
	g.sites = sitesOf(cluster, g.open)
	if cluster.Tokens == "" {
		return g, nil
	}
	var err error
	if g.tokens, err = loadTokens(cluster.Tokens, log); err != nil {
		return nil, err
	}
	if cluster.TLS == nil {
		if key == nil {
			return nil, errors.New("tokens without tls need the key of the cluster, by which controllers know each " +
				"other: make a file with 64 random hexadecimal digits, " + clusterkey.File + " in the data folder, " +
				"and copy it to all controllers")
		}
		g.peers = key.Token()
	}
	go g.tokens.watch(ctx)
	return g, nil
}

// caller is who has made a request.
type caller struct {
	pki.Identity
	by    string // certificate or token; "" if nobody has to say
	token string
}

type callerKey struct{}

// IdentityOf returns who has made the request with this context; false if that is not known.
func IdentityOf(ctx context.Context) (pki.Identity, bool) {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c.Identity, c.by != ""
}

// OnlyReads reports whether whoever has made the request with this context may change nothing.
func OnlyReads(ctx context.Context) bool {
	who, known := IdentityOf(ctx)
	return known && who.Role == pki.Viewer
}

// Forward adds to the header of a request that is passed on to another controller the token of whoever has made it.
// Controllers with certificates believe each other without.
func Forward(ctx context.Context, header http.Header) {
	if c, _ := ctx.Value(callerKey{}).(caller); c.token != "" {
		header.Set("Authorization", bearer+c.token)
	}
}

// Ask adds to a request of this controller to another one what proves that a controller makes it.
func (g *Guard) Ask(r *http.Request) {
	if g != nil && g.peers != "" {
		r.Header.Set("Authorization", bearer+g.peers)
	}
}

const bearer = "Bearer "

var errUnknown = errors.New("this is for those who have a token or a certificate: send the header `Authorization: " +
	"Bearer TOKEN` with a token of `holdfast token add`")

// identify returns who makes a request. done must be called when it is served.
func (g *Guard) identify(r *http.Request) (who caller, done func(), err error) {
	done = func() {}
	secret, has := strings.CutPrefix(r.Header.Get("Authorization"), bearer)
	if g.tokens != nil && has && token.Is(secret) {
		hash := token.HashOf(secret)
		if g.peers != "" && hash == token.HashOf(g.peers) {
			return caller{pki.Identity{Role: pki.Viewer, Name: "controllers"}, "token", secret}, done, nil
		}
		id, s, known := g.tokens.begin(hash, mtls.ConnOf(r.Context()))
		if !known {
			return who, done, fmt.Errorf("the token is not known, or was removed: %w", errUnknown)
		}
		return caller{id, "token", secret}, func() { g.tokens.end(s) }, nil
	}
	if id, is := mtls.PeerOf(r.Context()); is {
		return caller{id, "certificate", ""}, done, nil
	}
	if g.open {
		return who, done, nil
	}
	return who, done, errUnknown
}

// Serve passes a request to next if whoever makes it may do so. pattern is the row of needs.
func (g *Guard) Serve(w http.ResponseWriter, r *http.Request, pattern string, next http.Handler) {
	n := needs[pattern]
	if g == nil || n.anybody && reads(r) {
		next.ServeHTTP(w, r)
		return
	}
	if err := g.sites.check(r); err != nil {
		g.refused.Warn(r.Header.Get("Origin"), "request refused", "remote", r.RemoteAddr, "path", r.URL.Path, "origin",
			r.Header.Get("Origin"), "err", err)
		api.Refuse(w, r, connect.CodePermissionDenied, err)
		return
	}
	who, done, err := g.identify(r)
	defer done()
	if err != nil {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		g.refused.Warn(host, "request refused", "remote", r.RemoteAddr, "path", r.URL.Path, "err", err)
		w.Header().Set("WWW-Authenticate", "Bearer")
		api.Refuse(w, r, connect.CodeUnauthenticated, err)
		return
	}
	if who.token != "" {
		r.Header.Del("Authorization") // no application learns it, and no log
	}
	r = r.WithContext(context.WithValue(r.Context(), callerKey{}, who))
	permitted := g.open && n != need{} || n.permits(who.Role, reads(r))
	recorded := g.audit != nil && !reads(r) && n.record != never && (n.record != ifKnown || !g.open)
	if !permitted {
		next = refusal(who, n, r)
		g.refused.Warn(who.String(), "request refused", "who", who.String(), "remote", r.RemoteAddr, "path", r.URL.Path)
		recorded = recorded && g.denied.record(refused{who.Identity, pattern}, time.Now())
	} else if n.record == inside {
		recorded = false
	}
	if !recorded {
		next.ServeHTTP(w, r)
		return
	}
	g.record(w, r, who, next)
}

// refusal says why a request is refused.
func refusal(who caller, n need, r *http.Request) http.Handler {
	least := n.change
	if reads(r) {
		least = n.read
	}
	why := errors.New("nobody may do this")
	if least != "" {
		why = fmt.Errorf("%s may not do this: it needs the role %s; use a certificate of `holdfast pki issue %s`, or "+
			"a token of `holdfast token add %s`", who.Identity, least, least, least)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.Refuse(w, r, connect.CodePermissionDenied, why)
	})
}

// Record records in the audit log a change that is about to be made, by the request with this context. If that is not
// possible, it must not be made. end records what became of it, with a status of HTTP.
func (g *Guard) Record(ctx context.Context, address, what, body string) (end func(status int, why string), err error) {
	if g == nil || g.audit == nil {
		return func(int, string) {}, nil
	}
	asked := auditlog.Request{Address: address, What: what, Body: body, CutOff: len(body) > maxRecorded}
	asked.Body = strings.ToValidUTF8(asked.Body[:min(len(body), maxRecorded)], "")
	if who, _ := ctx.Value(callerKey{}).(caller); who.by != "" {
		asked.Who, asked.By = who.String(), who.by
	}
	id, err := g.audit.Begin(ctx, asked)
	return func(status int, why string) { g.audit.End(id, status, why) }, err
}

// maxRecorded bounds what the audit log has of the body of a request, and of the answer to one that failed.
const maxRecorded = 1 << 10

// record serves a request between two records in the audit log.
func (g *Guard) record(w http.ResponseWriter, r *http.Request, who caller, next http.Handler) {
	asked := auditlog.Request{By: who.by, Address: r.RemoteAddr, What: r.Method + " " + r.URL.RequestURI()}
	asked.What = asked.What[:min(len(asked.What), maxRecorded)]
	if who.by != "" {
		asked.Who = who.String()
	}
	body, cut, err := peek(r)
	if err != nil {
		http.Error(w, "read the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	asked.Body, asked.CutOff = strings.ToValidUTF8(string(body), string(utf8.RuneError)), cut
	id, err := g.audit.Begin(r.Context(), asked)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	a := &answer{ResponseWriter: w, status: http.StatusOK}
	defer func() { // also if next panics, as one that is cut off does
		g.audit.End(id, a.status, strings.TrimSpace(strings.ToValidUTF8(string(a.failure), string(utf8.RuneError))))
	}()
	next.ServeHTTP(a, r)
}

// peek returns the beginning of a body, which can still be read whole.
func peek(r *http.Request) (beginning []byte, cut bool, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, false, nil
	}
	beginning, err = io.ReadAll(io.LimitReader(r.Body, maxRecorded+1))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(beginning), r.Body), r.Body}
	if len(beginning) > maxRecorded {
		return beginning[:maxRecorded], true, err
	}
	return beginning, false, err
}

// answer is a http.ResponseWriter that remembers what became of a request.
type answer struct {
	http.ResponseWriter
	status  int
	failure []byte // the beginning of the body, if the status is one of a failure
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	if a.status >= http.StatusBadRequest {
		a.failure = append(a.failure, b[:min(len(b), maxRecorded-len(a.failure))]...)
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
