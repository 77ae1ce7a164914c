package program

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults. A stop is SIGTERM and a new process once the old one has ended.
const (
	Kill   Kind = "killed (SIGKILL)"
	Freeze Kind = "frozen (SIGSTOP, SIGCONT)"
	Stop   Kind = "stopped (SIGTERM)"
	Cut    Kind = "cut off from all servers"
	Stall  Kind = "connections stalled"
	Reset  Kind = "connections reset"
)

// Kinds returns all kinds of faults, in the order in which they are reported.
func Kinds() []Kind { return []Kind{Kill, Freeze, Stop, Reset, Cut, Stall} }

// Fault is one fault: it starts at At, lasts for For, and is injected into Target.
type Fault struct {
	At, For time.Duration
	Target  Target
	Kind    Kind
}

// Target is a process: a role and its number.
type Target struct {
	Role   Role
	Number int
}

// Role is the kind of a process.
type Role string

// The roles of processes. Counters are toolworkers that count what they execute. Clients are not killed.
const (
	Server  Role = "server"
	Runner  Role = "runner"
	Worker  Role = "toolworker"
	Counter Role = "counting toolworker"
	Client  Role = "client"
)

// Roles returns all roles, in the order in which they are reported.
func Roles() []Role { return []Role{Server, Runner, Worker, Counter, Client} }

// Plan has the time for which faults are injected, the longest time that one lasts, the number of processes of each
// role, and the average time between two faults of a process. Longest is at most [Longest]; 0 means that. A role
// without a Gap has no faults.
type Plan struct {
	Length  time.Duration
	Longest time.Duration
	Count   map[Role]int
	Gap     map[Role]time.Duration
}

// Longest is the longest time of a fault: longer than all times after which a runner counts as lost.
const Longest = 12 * time.Second

const (
	shortest = 100 * time.Millisecond // fault
	// serverRest is the minimum time between two faults of servers, so that a server can catch up before the next one is
	// down.
	serverRest = 2 * time.Second
	// bothDown is the maximum time for which two servers are down at once.
	bothDown = 3 * time.Second
)

// Faults returns the faults of a seed, sorted by time. The faults of a process do not overlap. One server is down at a
// time, or two for short moments.
func Faults(seed uint64, p Plan) []Fault {
	var all []Fault
	for i, role := range Roles() {
		if p.Gap[role] <= 0 {
			continue
		}
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		if role == Server {
			all = append(all, serverFaults(r, p)...)
			continue
		}
		for n := range p.Count[role] {
			all = append(all, timeline(r, p, role, 0, func() Target { return Target{role, n} })...)
		}
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return all
}

// timeline fills the plan's length with faults that do not overlap.
func timeline(r *rand.Rand, p Plan, role Role, rest time.Duration, target func() Target) (faults []Fault) {
	at := time.Duration(r.Float64() * float64(p.Gap[role]))
	for at < p.Length {
		f := Fault{At: at, For: min(duration(r), cmp.Or(p.Longest, Longest)), Target: target(), Kind: kind(r, role)}
		faults = append(faults, f)
		at += f.For + rest + time.Duration(r.ExpFloat64()*float64(p.Gap[role]))
	}
	return faults
}

func serverFaults(r *rand.Rand, p Plan) []Fault {
	n := p.Count[Server]
	faults := timeline(r, p, Server, serverRest, func() Target { return Target{Server, r.IntN(n)} })
	for _, f := range faults {
		if r.IntN(8) == 0 && n > 1 {
			other := Target{Server, (f.Target.Number + 1) % n}
			faults = append(faults, Fault{At: f.At, For: min(f.For, bothDown), Target: other, Kind: f.Kind})
		}
	}
	return faults
}

// kind draws a kind of fault for a process of a role. Servers have no proxies, and clients are not processes.
func kind(r *rand.Rand, role Role) Kind {
	switch role {
	case Client:
		return []Kind{Reset, Cut, Stall}[r.IntN(3)]
	case Server:
		return []Kind{Kill, Kill, Freeze, Stop}[r.IntN(4)]
	}
	return []Kind{Kill, Kill, Kill, Freeze, Freeze, Stop, Stop, Cut, Stall, Reset}[r.IntN(10)]
}

// duration draws a time between shortest and Longest; each power of two is equally likely.
func duration(r *rand.Rand) time.Duration {
	octaves := 0
	for d := shortest; d < Longest; d *= 2 {
		octaves++
	}
	d := shortest << r.IntN(octaves)
	return min(d+time.Duration(r.Float64()*float64(d)), Longest)
}
