package api

import (
	"net/http"
	"strings"

	"connectrpc.com/connect"
)

// services is the beginning of the paths of the interface.
const services = "/holdfast.v1."

// Refuse answers a request without its handler: in the protocol in which a client of the interface has asked, and
// everybody else as HTTP does.
func Refuse(w http.ResponseWriter, r *http.Request, code connect.Code, err error) {
	if answers := connect.NewErrorWriter(); strings.HasPrefix(r.URL.Path, services) && answers.IsSupported(r) {
		_ = answers.Write(w, r, connect.NewError(code, err)) // the client is gone
		return
	}
	http.Error(w, err.Error(), Status(code))
}

// Status returns the status of HTTP for an error.
func Status(code connect.Code) int {
	switch code {
	case connect.CodeUnauthenticated:
		return http.StatusUnauthorized
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeUnavailable:
		return http.StatusServiceUnavailable
	case connect.CodeFailedPrecondition, connect.CodeInvalidArgument:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
