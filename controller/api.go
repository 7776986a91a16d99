package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller/dashboard"
	"github.com/holdfast-sdn/holdfast/controller/feed"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
)

// apiServer is the interface for operators, for programs, and for the other controllers: the services of package api,
// /metrics for Prometheus, and what describes and checks the interface. It has one port for gRPC, gRPC-Web, and HTTP
// with JSON.
type apiServer struct {
	api.UnimplementedClusterHandler // for what sharedHandlers has
	*web
	c       *Controller
	inquiry *inquiry

	cluster    *shared[ClusterStatus]
	controller *shared[Status]
	actors     *shared[Actors]
	matrix     *shared[Matrix]
	advice     *shared[Advice]
	tally      *shared[Tally]
	topology   *shared[*api.Topology]
	protection *shared[*api.Protection]
	tables     *shared[*api.TableList]

	rows      chan *pages    // capacity 1: the table of which somebody reads pages; a request takes it
	questions chan time.Time // capacity 1: when the next question about paths may be answered; a request takes it
	feed      *feed.Feed
	watchers  atomic.Int64
	large     *semaphore.Weighted // bytes of large messages while they are sent to watchers
	awaited   chan struct{}       // capacity 1: somebody watches
	unread    *unread
}

// routes are paths that are served.
type routes struct {
	*http.ServeMux
	patterns []string
}

// handle adds a path.
func (r *routes) handle(pattern string, h http.Handler) {
	r.patterns = append(r.patterns, pattern)
	r.Handle(pattern, h)
}

func (c *Controller) serveAPI(l net.Listener) *apiServer {
	a := newAPI(c)
	a.web = a.server()
	a.start(l)
	return a
}

// server returns one that has not started.
func (a *apiServer) server() *web {
	// Streams have no write timeout, see watch. Pings find out that a client of HTTP/2 is gone.
	return newWeb(a.c.log, &http.Server{Handler: a.c.guarded(a.routes()), ReadTimeout: 5 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second, ConnContext: connected,
		Protocols: protocols(), HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter}})
}

// sendBuffer bounds what the kernel keeps for a client that does not read: Linux takes twice as many bytes. Otherwise
// it keeps megabytes, and a slow watcher is noticed minutes later. With a round trip of 50 ms, 1 MB/s remain.
const sendBuffer = 32 << 10

// connected bounds the buffer of a new connection, and keeps the connection in the context of its requests.
func connected(ctx context.Context, conn net.Conn) context.Context {
	if g, is := conn.(*gathering); is {
		ctx = context.WithValue(ctx, gatheringKey{}, g)
		conn = g.Conn
	}
	raw := conn
	if secure, is := conn.(interface{ NetConn() net.Conn }); is {
		raw = secure.NetConn()
	}
	if tcp, is := raw.(interface{ SetWriteBuffer(int) error }); is {
		_ = tcp.SetWriteBuffer(sendBuffer) // the connection works without it
	}
	return mtls.WithConn(ctx, conn)
}

func newAPI(c *Controller) *apiServer {
	a := &apiServer{c: c, inquiry: newInquiry(c), rows: make(chan *pages, 1), questions: make(chan time.Time, 1),
		feed: feed.New(newFeedID()), awaited: make(chan struct{}, 1), large: semaphore.NewWeighted(watchLarge),
		unread: &unread{large: room{most: unreadLarge}, small: room{most: unreadSmall}}}
	a.rows <- nil
	a.questions <- time.Time{}
	q := a.inquiry
	a.cluster = share(q.cluster, mirrorOf[ClusterStatus](&api.ClusterStatus{}))
	a.controller = share(c.Status, mirrorOf[Status](&api.ControllerStatus{}))
	a.actors = share(q.actors, mirrorOf[Actors](&api.Actors{}))
	a.matrix = share(q.matrix, mirrorOf[Matrix](&api.Matrix{}))
	a.advice = share(q.advice, mirrorOf[Advice](&api.Advice{}))
	a.actors.basis, a.matrix.basis, a.advice.basis = q.basis, q.basis, q.basis
	a.tally = share(c.Tally, mirrorOf[Tally](&api.Tally{}))
	a.topology = share(c.topology, func(t *api.Topology) proto.Message { return t })
	a.protection = share(c.protection, func(p *api.Protection) proto.Message { return p })
	a.tables = share(c.listTables, func(t *api.TableList) proto.Message { return t })
	return a
}

func (a *apiServer) start(l net.Listener) { a.web.start(&gatheringListener{Listener: l}) }

func (a *apiServer) close() error {
	defer a.inquiry.http.CloseIdleConnections()
	return a.web.close()
}

// routes are the paths of the API.
func (a *apiServer) routes() *routes {
	mux := &routes{ServeMux: http.NewServeMux()}
	mux.handle("GET /metrics", a.c.metrics())
	mux.handle("GET "+dashboard.Path, dashboard.Handler())
	mux.handle("GET /{$}", http.RedirectHandler(dashboard.Path, http.StatusFound))
	mux.handle("GET /openapi.json", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(api.OpenAPI) // the client is gone
	}))
	options := append(api.HandlerOptions(), connect.WithInterceptors(recorder{a.c.cfg.Guard}, a.unread))
	_, reads := api.NewClusterHandler(a, options...)
	_, changes := api.NewOperationsHandler(operations{a.c}, options...)
	own := a.sharedHandlers(append(options, connect.WithIdempotency(connect.IdempotencyNoSideEffects)))
	for name, h := range map[string]http.Handler{api.ClusterName: reads, api.OperationsName: changes} {
		for _, method := range methodsOf(name) {
			path := "/" + name + "/" + method
			if o := own[path]; o != nil {
				mux.handle(path, a.unread.until(o))
			} else {
				mux.handle(path, a.unread.until(h))
			}
		}
	}
	health := grpchealth.NewStaticChecker(api.ClusterName, api.OperationsName)
	bounded := connect.WithReadMaxBytes(api.MaxRequest)
	mux.handle(grpchealth.NewHandler(checker{a.c, health}, bounded))
	describes := grpcreflect.NewStaticReflector(api.ClusterName, api.OperationsName, grpchealth.HealthV1ServiceName)
	mux.handle(grpcreflect.NewHandlerV1(describes, bounded))
	mux.handle(grpcreflect.NewHandlerV1Alpha(describes, bounded))
	return mux
}

// sharedHandlers are those whose answers go to many.
func (a *apiServer) sharedHandlers(options []connect.HandlerOption) map[string]http.Handler {
	handlers := map[string]http.Handler{api.ClusterWatchProcedure: a.endless(
		connect.NewServerStreamHandler(api.ClusterWatchProcedure, a.watch, options...))}
	for path, unary := range map[string]func(context.Context,
		*connect.Request[emptypb.Empty]) (*connect.Response[api.Encoded], error){
		api.ClusterGetStatusProcedure:     a.cluster.unary,
		api.ClusterGetControllerProcedure: a.controller.unary,
		api.ClusterListActorsProcedure:    a.actors.unary,
		api.ClusterGetMatrixProcedure:     a.matrix.unary,
		api.ClusterGetAdviceProcedure:     a.advice.unary,
		api.ClusterGetTallyProcedure:      a.tally.unary,
		api.ClusterGetTopologyProcedure:   a.topology.unary,
		api.ClusterGetProtectionProcedure: a.protection.unary,
		api.ClusterListTablesProcedure:    a.tables.unary,
	} {
		handlers[path] = connect.NewUnaryHandler(path, unary, options...)
	}
	return handlers
}

// methodsOf returns the methods of a service.
func methodsOf(service string) (list []string) {
	s := api.File_holdfast_v1_service_proto.Services()
	for i := range s.Len() {
		for k := range s.Get(i).Methods().Len() {
			if m := s.Get(i).Methods().Get(k); string(s.Get(i).FullName()) == service {
				list = append(list, string(m.Name()))
			}
		}
	}
	return list
}

// guarded lets only those use a path who may: access has the roles.
func (c *Controller) guarded(mux *routes) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		if pattern == "" {
			mux.ServeHTTP(w, r) // it says that there is no such path
			return
		}
		c.cfg.Guard.Serve(w, r, pattern, mux)
	})
}

// checker says whether this controller serves: it does if it knows a leader.
type checker struct {
	c     *Controller
	known grpchealth.Checker
}

// Check implements grpchealth.Checker.
func (k checker) Check(ctx context.Context, q *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	r, err := k.known.Check(ctx, q)
	if err == nil && k.c.system().node.Status().Leader == 0 {
		r.Status = grpchealth.StatusNotServing
	}
	return r, err
}

// recorder records what changes something in the audit log, before it is executed.
type recorder struct{ guard auditor }

// auditor is an access.Guard.
type auditor interface {
	Record(ctx context.Context, address, what, body string) (end func(status int, why string), err error)
}

// WrapUnary implements connect.Interceptor.
func (r recorder) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		if q.Spec().IdempotencyLevel == connect.IdempotencyNoSideEffects {
			return next(ctx, q)
		}
		body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(q.Any().(proto.Message))
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		var text bytes.Buffer
		_ = json.Compact(&text, body) // protojson adds blanks at random
		end, err := r.guard.Record(ctx, q.Peer().Addr, http.MethodPost+" "+q.Spec().Procedure, text.String())
		if err != nil {
			return nil, connect.NewError(connect.CodeUnavailable, err)
		}
		status, why := http.StatusOK, "it has panicked"
		defer func() { end(status, why) }()
		answer, err := next(ctx, q)
		if why = ""; err != nil {
			status, why = api.Status(connect.CodeOf(err)), err.Error()
		}
		return answer, err
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (recorder) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor. No stream changes anything.
func (recorder) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
