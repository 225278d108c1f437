package evaluator

import (
	"fmt"
	"sync"
	"time"
)

// An Allowance bounds how long all launches of a candidate may take together, over every stage of one
// evaluation, or of finals. The judge says how long those of the next stage may take, a multiple of the
// baseline's; in all, launches may take some seconds whatever the baseline takes. Labs say how long launches
// took, without waits for a core.
//
// The zero Allowance has no bound and only counts; nil does neither. Its methods are safe for concurrent
// use: several tools launch a candidate at once.
type Allowance struct {
	mu       sync.Mutex
	least    time.Duration
	before   time.Duration // what was spent when the stage began
	stage    time.Duration // what its launches may take
	patience time.Duration // multiplies least and stage; zero is once
	spent    time.Duration
}

// NewAllowance returns an Allowance of at least some time.
func NewAllowance(least time.Duration) *Allowance { return &Allowance{least: least} }

// Limit is how long all launches may take together; zero is any time.
func (a *Allowance) Limit() time.Duration {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit()
}

func (a *Allowance) limit() time.Duration {
	patience := max(a.patience, 1)
	return max(patience*a.least, a.before+patience*a.stage)
}

// Spent is how long all launches took until now.
func (a *Allowance) Spent() time.Duration {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spent
}

// Spend adds what launches took. It may be less than zero: it turned out that they had waited for a core.
// Once all launches took longer than they may, the error is a [*Fault], a Hang.
func (a *Allowance) Spend(d time.Duration) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spent += d
	limit := a.limit()
	if limit == 0 || a.spent <= limit {
		return nil
	}
	return &Fault{Hang: true, Reason: fmt.Sprintf("its launches took %s together until now, and all of them may take %s",
		a.spent.Round(time.Millisecond), limit.Round(time.Millisecond))}
}

// grant begins a stage whose launches may take so long. What is left of the stage before lapses.
func (a *Allowance) grant(d time.Duration) {
	if a != nil {
		a.mu.Lock()
		a.before, a.stage = a.spent, d
		a.mu.Unlock()
	}
}

// extend lets the launches of a stage take longer, since there are more of them.
func (a *Allowance) extend(d time.Duration) {
	if a != nil {
		a.mu.Lock()
		a.stage += d
		a.mu.Unlock()
	}
}

// again begins an attempt anew, in which launches may take longer by [patience], and forgets what was spent since some
// moment.
func (a *Allowance) again(spent time.Duration) {
	if a != nil {
		a.mu.Lock()
		a.spent, a.patience = spent, patience
		a.mu.Unlock()
	}
}

// calm ends such an attempt.
func (a *Allowance) calm() {
	if a != nil {
		a.mu.Lock()
		a.patience = 0
		a.mu.Unlock()
	}
}
