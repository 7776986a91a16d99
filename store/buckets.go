package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// A namespace NAME/N is divided into N buckets. Each of them is an actor, and works like a namespace called NAME/N/I.
// Only controllers name buckets: a Split sends each of them its part of a request. Rows are in the bucket that Bucket
// returns. Tables and components are in all buckets. Bucket 0 decides about these, and the others adopt what it has.

// MaxBuckets bounds the buckets of a namespace.
const MaxBuckets = 256

// Buckets returns how many buckets a namespace has: N if it is called NAME/N, else 0.
func Buckets(namespace string) int {
	name, n, ok := cutNumber(namespace)
	if !ok || n < 2 || n > MaxBuckets || !isName(name) {
		return 0
	}
	return n
}

// BucketName returns the name of a bucket of a namespace.
func BucketName(namespace string, bucket int) string { return fmt.Sprint(namespace, "/", bucket) }

// parseBucket returns the namespace and the number of a bucket, and how many there are; 0 if it is not the name of one.
func parseBucket(name string) (namespace string, bucket, of int) {
	namespace, bucket, ok := cutNumber(name)
	if of = Buckets(namespace); !ok || bucket >= of {
		return "", 0, 0
	}
	return namespace, bucket, of
}

// cutNumber cuts the decimal number after the last slash.
func cutNumber(name string) (before string, n int, ok bool) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(name[i+1:])
	return name[:i], n, err == nil && n >= 0 && strconv.Itoa(n) == name[i+1:]
}

// Bucket returns the bucket, of so many, that rows with a key are in. Clients may compute it too, so it stays as it is:
// FNV-1a with 64 bits of the bytes of the key, the finalizer of MurmurHash3, and the rest of a division.
func Bucket(key string, of int) int { return int(hash(key) % uint64(of)) }

func hash(key string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(key) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Place implements ledger.Placer: the buckets of a namespace begin in all groups evenly.
func (a *Application) Place(at ledger.Shard, groups []uint64) uint64 {
	namespace, bucket, of := parseBucket(at.Key.S)
	if of == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(groups))[(hash(namespace)%MaxBuckets+uint64(bucket))%uint64(len(groups))]
}

// Stays implements ledger.Placer: namespaces and buckets may move.
func (a *Application) Stays() bool { return false }

// The kinds of ops that controllers send to buckets. Clients cannot use them.
const (
	// adopt gives a bucket the definition of a table, or the source of a component, that bucket 0 has at the revision
	// in the condition. Without a definition or source there is none. The version of the result is 0 if the bucket had
	// it already. The code is Outdated if the bucket has adopted something of a later revision of bucket 0.
	adopt Kind = 128 + iota
	// join opens the session that bucket 0 has opened. Its number is the delta.
	join
	// refuseDrop is refused in place of a DropTable, since another bucket has rows. So bucket 0 keeps the refusal for
	// the session, and a late copy of the request does not drop the table after the rows are gone.
	refuseDrop
)

// checkOp is Op.check for what is asked of this namespace.
func (n *namespace) checkOp(o *Op) *Error {
	if n.buckets > 0 && o.Kind >= adopt && o.Kind <= refuseDrop {
		return nil // a controller has made it
	}
	return o.check()
}

// has returns an error unless rows with a key are in this bucket.
func (n *namespace) has(key string) error {
	if n.buckets > 0 && Bucket(key, n.buckets) != n.bucket {
		return Fail(SeveralBuckets, "row %q is in bucket %d, and the transaction is executed in %s", key,
			Bucket(key, n.buckets), n.name)
	}
	return nil
}

// adopt executes an op of that kind. Revisions of bucket 0 order what is adopted, so a bucket ends with the newest,
// whichever controller is first.
func (n *namespace) adopt(o *Op, out *Result) error {
	at := *o.Condition.Version
	if at < n.meta.adopted {
		return Fail(Outdated, "bucket %s has adopted what bucket 0 had at revision %d, this is of %d", n.name,
			n.meta.adopted, at)
	}
	n.changed = n.changed || at > n.meta.adopted
	n.meta.adopted = at
	if o.Component != "" {
		return n.adoptComponent(o, out)
	}
	if b, there := n.tx.Get(n.tx.Table(tableTable), n.cell, ledger.Key{S: o.Table}); there {
		t, err := n.decoded(o.Table, b)
		if err != nil || o.Definition != nil && o.Definition.equal(&t.Definition) {
			return err
		}
		if err := n.dropTable(o, out); err != nil {
			return err
		}
	}
	if o.Definition == nil {
		return nil
	}
	return n.createTable(o, out)
}

func (n *namespace) adoptComponent(o *Op, out *Result) error {
	c, there := n.component(o.Component)
	switch {
	case there && o.Source == "":
		n.removeComponent(o.Component, out)
	case o.Source != string(c.source):
		return n.upload(&Op{Component: o.Component, Source: o.Source}, c, there, out)
	}
	return nil
}

func (d *Definition) equal(o *Definition) bool {
	return slices.Equal(d.Columns, o.Columns) && d.RefersTo == o.RefersTo && d.Through == o.Through
}

// join opens a session that bucket 0 has opened.
func (n *namespace) join(o *Op) error {
	id := uint64(o.Delta)
	if _, there := n.session(id); there {
		return nil
	}
	return n.addSession(id)
}
