// Package ports finds ports for the servers of tests that are restarted.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports of servers are below the range from which the kernel assigns ports to connections, so that the port of a server
// that is down stays free until its restart.
const lowPort, highPort = 16000, 30000

// reserved are the sockets that reserve ports for this process: UDP sockets with the same port numbers, which no server
// of a test uses. Tests in other processes search for ports at the same time, before any server listens.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// reserve reserves a port for this process until its end. It returns false if another process or test has it.
func reserve(address string) bool {
	socket, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.sockets = append(reserved.sockets, socket)
	return true
}

// Free returns n free ports of 127.0.0.1. They are reserved for the caller until the process ends.
func Free(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		port := lowPort + rand.IntN(highPort-lowPort)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer l.Close() // closed together at the end, so that no port is found twice
		if !reserve(address) {
			continue
		}
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("found %d free ports of %d", len(ports), n)
}
