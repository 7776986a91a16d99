package ovsdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// message is a request, a response or a notification of JSON-RPC 1.0 (4). Absent members and null are the same.
type message struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func isNull(b json.RawMessage) bool { return len(b) == 0 || string(b) == "null" }

func decodeMessage(b []byte) (message, error) {
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		return message{}, fmt.Errorf("read a message: %w", err)
	}
	if m.Method == "" && isNull(m.ID) {
		return message{}, errors.New("read a message: neither method nor id")
	}
	return m, nil
}

// encodeRequest returns a request with a number as its id.
func encodeRequest(id uint64, method string, params []any) ([]byte, error) {
	return json.Marshal(struct {
		Method string `json:"method"`
		Params []any  `json:"params"`
		ID     uint64 `json:"id"`
	}{method, params, id})
}

// encodeEcho returns the answer to an echo request (4.1.11), with its content and id.
func encodeEcho(request message) ([]byte, error) {
	if isNull(request.Params) {
		request.Params = json.RawMessage("[]")
	}
	return json.Marshal(struct {
		Result json.RawMessage `json:"result"`
		Error  any             `json:"error"`
		ID     json.RawMessage `json:"id"`
	}{request.Params, nil, request.ID})
}

// DatabaseError is an error with which the database server answered.
type DatabaseError struct {
	Reason  string `json:"error"` // such as "timed out", "constraint violation" (3.1)
	Details string `json:"details"`
}

// Error implements error.
func (e *DatabaseError) Error() string {
	if e.Details == "" {
		return "the database says: " + e.Reason
	}
	return fmt.Sprintf("the database says: %s (%s)", e.Reason, e.Details)
}

// result returns the result of a response, or its error.
func (m message) result() (json.RawMessage, error) {
	if isNull(m.Error) {
		return m.Result, nil
	}
	e := new(DatabaseError)
	if json.Unmarshal(m.Error, e) != nil || e.Reason == "" {
		e.Reason = string(bytes.TrimSpace(m.Error))
	}
	return nil, e
}

// operation is one of a transaction (5.2).
type operation struct {
	Op        string      `json:"op"`
	Table     string      `json:"table,omitempty"`
	Where     []condition `json:"where,omitempty"`
	Columns   []string    `json:"columns,omitempty"`
	Mutations []mutation  `json:"mutations,omitempty"`
	Until     string      `json:"until,omitempty"`
	Rows      []any       `json:"rows,omitempty"`
	Timeout   *int        `json:"timeout,omitempty"`
	Comment   string      `json:"comment,omitempty"`
}

// condition is [column, function, value], mutation is [column, mutator, value].
type condition [3]any
type mutation [3]any

// rows reads the results of a transaction, and returns the rows that its first operation selected. A transaction has
// failed as a whole if any of the results is an error (4.1.3); there may be one more result than operations.
func rows(result json.RawMessage) ([]interfaceRow, error) {
	var results []*struct {
		DatabaseError
		Rows []interfaceRow `json:"rows"`
	}
	if err := json.Unmarshal(result, &results); err != nil {
		return nil, fmt.Errorf("read the results of a transaction: %w", err)
	}
	for _, r := range results {
		if r != nil && r.Reason != "" {
			return nil, &r.DatabaseError
		}
	}
	if len(results) == 0 || results[0] == nil {
		return nil, nil
	}
	return results[0].Rows, nil
}
