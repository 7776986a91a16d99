// Package api is the interface of controllers for operators and programs: the messages and services of the files in
// holdfast/v1, with what is generated from them. Clients in Go use NewClusterClient and NewOperationsClient; the page
// docs/api.md describes the interface.
//
// It does not execute anything: package controller serves it, and controller/client asks several controllers.
package api

import _ "embed" // OpenAPI

//go:generate go run ./generate

// OpenAPI describes the interface for HTTP and JSON, as OpenAPI 3.1. It is generated.
//
//go:embed openapi.json
var OpenAPI []byte
