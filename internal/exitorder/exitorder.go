// Package exitorder makes the kernel close the connections of a process that is killed before it frees the memory of
// that process, so that the other ends learn of its death at once. It does nothing while the process lives.
//
// Linux ends a process in the reverse order: memory first, about 50 µs for each MiB, then descriptors. It does not free
// memory that another process uses. So the package starts a process that shares the memory, but no descriptor, and
// waits until this one has ended.
package exitorder
