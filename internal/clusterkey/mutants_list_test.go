package clusterkey

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs by which somebody without the key would be heard.
var mutants = []mutation.Bug{
	{Name: "a wrong tag is taken", File: "internal/clusterkey/conn.go",
		Before: "rest[:end]); err != nil {\n", After: "rest[:end]); err != nil && false {\n"},
	{Name: "a record can be repeated", File: "internal/clusterkey/conn.go",
		Before: "	d.number++\n", After: ""},
	{Name: "the dialer need not prove anything", File: "internal/clusterkey/conn.go",
		Before: "	if !hmac.Equal(proof, ", After: "	if false && !hmac.Equal(proof, "},
	{Name: "the listener need not prove anything", File: "internal/clusterkey/conn.go",
		Before: "	if !hmac.Equal(answer[len(magic)+nonceLen:], ", After: "	if false && !hmac.Equal(answer, "},
	{Name: "a key that others can read is taken", File: "internal/clusterkey/clusterkey.go",
		Before: "open := info.Mode().Perm() & 0o077; open != 0 {", After: "open := info.Mode().Perm() & 0o002; open != 0 {"},
}

func TestMutantsApply(t *testing.T) { mutation.TestApply(t, "../..", mutants) }
