package httpcall

import (
	"reflect"
	"testing"
)

func TestEncode(t *testing.T) {
	q := Request{"PUT", map[string]string{"key": "a/b"}, map[string][]string{"x": {"1", "2"}}, []byte("body")}
	if got, err := Decode[Request](Encode(q)); err != nil || !reflect.DeepEqual(got, q) {
		t.Errorf("%+v (%v), want %+v", got, err, q)
	}
	p := Response{404, "text/plain", []byte("none")}
	if got, err := Decode[Response](Encode(p)); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v (%v), want %+v", got, err, p)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(Request{Method: "GET", Values: map[string]string{"key": "k"}}))
	f.Add(Encode(Response{Status: 200, Body: []byte("x")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := Decode[Request](b); err == nil {
			Encode(q)
		}
		if p, err := Decode[Response](b); err == nil {
			Encode(p)
		}
	})
}
