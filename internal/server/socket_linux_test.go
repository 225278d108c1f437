package server

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/evotune/evotune/store"
)

// TestOwnChild: a process that this one started is not answered on the socket, at the second
// remove either; this process itself is.
func TestOwnChild(t *testing.T) {
	const variable = "EVOTUNE_SERVER_TEST_SOCKET"
	ask := func(path string) string {
		c, err := net.Dial("unix", path)
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(c, "GET /healthz HTTP/1.0\r\n\r\n")
		line, _ := bufio.NewReader(c).ReadString('\n')
		return line
	}
	if path := os.Getenv(variable); path != "" {
		fmt.Printf("answer %q\n", ask(path))
		return
	}
	path := filepath.Join(t.TempDir(), "s.db")
	opened, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	stop, err := Serve(opened)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if got := ask(Socket(path)); got != "HTTP/1.0 200 OK\r\n" {
		t.Errorf("this process is answered %q", got)
	}
	for _, command := range []string{`exec "$0" "$@"`, `"$0" "$@"; true`} {
		cmd := exec.Command("/bin/sh", "-c", command, os.Args[0], "-test.run=^TestOwnChild$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"="+Socket(path))
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(`answer ""`)) {
			t.Errorf("a child, %s: %v: %s", command, err, out)
		}
	}
}
