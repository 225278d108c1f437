package cuda

import (
	"sync"

	"github.com/evotune/evotune/internal/turns"
)

// A common is what all labs of this process have of one GPU: the gate that says who may
// use it, and the workers that are being started on it.
type common struct {
	gate    *turns.Turns
	startup *startup
	labs    int
}

// commons has one for each GPU that a lab has open, by UUID.
var commons = struct {
	sync.Mutex
	of map[string]*common
}{of: map[string]*common{}}

// joinGPU gives what is common to the labs on a GPU. It serves until all have left.
func joinGPU(uuid string) *common {
	commons.Lock()
	defer commons.Unlock()
	c := commons.of[uuid]
	if c == nil {
		c = &common{gate: newGate(), startup: &startup{}}
		commons.of[uuid] = c
	}
	c.labs++
	return c
}

// leaveGPU gives it back.
func leaveGPU(uuid string) {
	commons.Lock()
	defer commons.Unlock()
	c := commons.of[uuid]
	if c.labs--; c.labs == 0 {
		delete(commons.of, uuid)
		c.gate.Close()
		c.startup.close()
	}
}
