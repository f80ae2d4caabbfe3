package servers

import (
	"bufio"
	"net"
	"testing"
)

// A server that is restarted while a command of this package's is under way counts anew, and nothing else.
func TestRestartUnderACommand(t *testing.T) {
	var p redisProbe
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		defer far.Close()
		if _, err := bufio.NewReader(far).ReadString('\n'); err == nil {
			p.reset()
			p.mu.Lock()
			p.monitor = &respConn{} // the next count has begun
			p.mu.Unlock()
			_, _ = far.Write([]byte("+OK\r\n"))
		}
	}()
	if v, err := p.do(&respConn{near, bufio.NewReader(near)}, "PING"); v != "OK" || err != nil {
		t.Errorf("%v %v", v, err)
	}
	if len(p.own) > 0 {
		t.Errorf("%v after a restart", p.own)
	}
}
