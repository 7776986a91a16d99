package cluster

import "testing"

// No block of ports is claimed twice, and when all are claimed there is still a port.
func TestBlocksOfPorts(t *testing.T) {
	claimed := map[int]bool{}
	for {
		block, lock := claimBlock()
		if block < 0 {
			break
		}
		defer lock.Close()
		if claimed[block] {
			t.Fatalf("block %d is claimed twice", block)
		}
		claimed[block] = true
	}
	if len(claimed) == 0 {
		t.Skip("other processes have claimed all blocks")
	}
	addresses, err := FreeAddresses("127.0.0.1", 100)
	if err != nil || len(addresses) != 100 {
		t.Errorf("%v: %v", addresses, err)
	}
}
