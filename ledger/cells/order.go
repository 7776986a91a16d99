package cells

import "slices"

// order is an ordered set of keys, a B+ tree. It is copied in constant time, by copying the struct: then both share all
// nodes, and a change copies those on its way that belong to an owner other than the one given.
type order struct{ root *node }

// A node has at most maxKeys keys. One with fewer than minKeys is merged with a neighbour if both have at most
// mergedKeys, so that not every change after that splits or merges again.
const (
	maxKeys    = 32
	minKeys    = maxKeys / 4
	mergedKeys = maxKeys * 3 / 4
)

// node is a leaf, or has other nodes: kids[i] has the keys from key i to key i+1, and key 0 is at most the first one.
// All slices have the same length, or are nil.
type node struct {
	owner *owner
	keys  []Key
	kids  []*node
}

// kid returns the index of the node for a key.
func (n *node) kid(k Key) int {
	i, found := slices.BinarySearchFunc(n.keys, k, Key.Compare)
	if !found && i > 0 {
		i--
	}
	return i
}

// owned returns a node that o may modify, with the same content.
func (n *node) owned(o *owner) *node {
	if n.owner == o {
		return n
	}
	return &node{o, room(n.keys, cap(n.keys)), room(n.kids, cap(n.kids))}
}

// insert adds a key, which is not there.
func (t *order) insert(o *owner, k Key) {
	if t.root == nil {
		t.root = &node{owner: o}
	}
	t.root = t.root.owned(o)
	if right := t.root.insert(o, k); right != nil {
		left := t.root
		t.root = &node{o, []Key{left.keys[0], right.keys[0]}, []*node{left, right}}
	}
}

// insert adds a key to a node that is owned. If the node was split, right has its greater keys.
func (n *node) insert(o *owner, k Key) (right *node) {
	if n.kids == nil {
		i, _ := slices.BinarySearchFunc(n.keys, k, Key.Compare)
		return n.add(o, i, k, nil)
	}
	i := n.kid(k)
	if i == 0 && k.Compare(n.keys[0]) < 0 {
		n.keys[0] = k
	}
	n.kids[i] = n.kids[i].owned(o)
	if beside := n.kids[i].insert(o, k); beside != nil {
		return n.add(o, i+1, beside.keys[0], beside)
	}
	return nil
}

// add adds key i, and its node if this is not a leaf. A full node is split. Where keys come in order, nodes stay full.
func (n *node) add(o *owner, i int, k Key, kid *node) (right *node) {
	if len(n.keys) == maxKeys {
		m := maxKeys / 2
		if i == maxKeys {
			m = maxKeys
		}
		right = &node{o, room(n.keys[m:], maxKeys), nil}
		if n.kids != nil {
			right.kids = room(n.kids[m:], maxKeys)
		}
		n.cut(m)
		if i > m || i == maxKeys {
			n, i = right, i-m
		}
	}
	n.keys = slices.Insert(n.keys, i, k)
	if kid != nil {
		n.kids = slices.Insert(n.kids, i, kid)
	}
	return right
}

// cut removes the keys from i on.
func (n *node) cut(i int) {
	clear(n.keys[i:])
	n.keys = n.keys[:i]
	if n.kids != nil {
		clear(n.kids[i:])
		n.kids = n.kids[:i]
	}
}

// delete removes a key, which is there.
func (t *order) delete(o *owner, k Key) {
	t.root = t.root.owned(o)
	t.root.delete(o, k)
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
	if len(t.root.keys) == 0 {
		t.root = nil
	}
}

// delete removes a key from a node that is owned.
func (n *node) delete(o *owner, k Key) {
	if n.kids == nil {
		i, _ := slices.BinarySearchFunc(n.keys, k, Key.Compare)
		n.keys = slices.Delete(n.keys, i, i+1)
		return
	}
	i := n.kid(k)
	n.kids[i] = n.kids[i].owned(o)
	n.kids[i].delete(o, k)
	if len(n.kids[i].keys) < minKeys {
		n.merge(o, i)
	}
}

// merge merges a node below with a neighbour, if both are small, and removes it if it is empty.
func (n *node) merge(o *owner, i int) {
	if len(n.kids[i].keys) == 0 {
		n.remove(i)
		return
	}
	i = max(i-1, 0)
	if i+1 == len(n.kids) || len(n.kids[i].keys)+len(n.kids[i+1].keys) > mergedKeys {
		return
	}
	left, right := n.kids[i].owned(o), n.kids[i+1]
	left.keys, left.kids = append(left.keys, right.keys...), append(left.kids, right.kids...)
	n.kids[i] = left
	n.remove(i + 1)
}

// remove removes key i and its node.
func (n *node) remove(i int) {
	n.keys, n.kids = slices.Delete(n.keys, i, i+1), slices.Delete(n.kids, i, i+1)
}

// from yields the keys from k on. The order must not change meanwhile; a copy of it may.
func (t order) from(k Key, yield func(Key) bool) {
	if t.root != nil {
		t.root.from(k, yield)
	}
}

func (n *node) from(k Key, yield func(Key) bool) bool {
	if n.kids == nil {
		i, _ := slices.BinarySearchFunc(n.keys, k, Key.Compare)
		for _, k := range n.keys[i:] {
			if !yield(k) {
				return false
			}
		}
		return true
	}
	for _, kid := range n.kids[n.kid(k):] {
		if !kid.from(k, yield) {
			return false
		}
	}
	return true
}
