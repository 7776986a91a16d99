// Command etcd is etcd, as a peer of the store in `holdfast bench store`. It is a module of its own, so that the
// product does not depend on what etcd needs.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
