//go:build browser

package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/dashboard"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/memory"
)

// browserPatience is for how long a browser may take for one thing.
const browserPatience = time.Minute

// The page in a real browser follows what happens without being loaded again, and evicts by its button after asking. Run by
// make browser, which needs chromium.
func TestInBrowser(t *testing.T) {
	l := open(t, memory.NewStore())
	lock, err := l.Acquire(t.Context(), "orders/42", locker.As("checkout"))
	if err != nil {
		t.Fatal(err)
	}
	checked := make(chan string, 1)
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", dashboard.New(l, dashboard.WithEvict(func(r *http.Request, p locker.Position) error {
		checked <- p.Owner
		return nil
	}))))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	b := newBrowser(t, server.URL+"/locks/")
	b.eventuallyShows("orders/42\tholds\texclusive\tcheckout")

	// What comes is shown, and what goes.
	b.run("document.title = 'not loaded again'")
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	stuck, err := l.Acquire(t.Context(), "orders/43", locker.As("<i>stuck</i>"))
	if err != nil {
		t.Fatal(err)
	}
	b.eventuallyShows("orders/43\tholds\texclusive\t<i>stuck</i>")
	if title := b.run("document.title"); title != "not loaded again" {
		t.Errorf("the page was loaded again: its title is %q", title)
	}
	if text := b.run("document.body.innerText"); strings.Contains(text, "orders/42") {
		t.Errorf("what was released is still shown: %s", text)
	}

	// The button asks first: who says no evicts nobody.
	b.run("window.confirm = (question) => { window.question = question; return false }")
	b.run("document.querySelector('button').click()")
	if question := b.run("window.question"); question != "Evict <i>stuck</i>?" {
		t.Errorf("the page asked %q", question)
	}
	b.run("window.confirm = () => true")
	b.run("document.querySelector('button').click()")
	select {
	case owner := <-checked:
		if owner != "<i>stuck</i>" {
			t.Errorf("%q was to be evicted", owner)
		}
	case <-time.After(browserPatience):
		t.Fatal("the click did not evict")
	}
	<-stuck.Context().Done()
	b.eventuallyShows("0 names held or waited for")
	if at := b.run("location.pathname"); at != "/locks/" {
		t.Errorf("the eviction led to %s", at)
	}
}

// browser is a Chromium that is spoken to over two pipes, by its DevTools protocol.
type browser struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	session string // of the page
	id      int
}

func newBrowser(t *testing.T, url string) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v (apt-get install chromium)", err)
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		in.Close()
		out.Close()
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended: // it ends by itself when its pipes are closed
		case <-time.After(browserPatience):
			cancel()
			<-ended
		}
		cancel()
	})
	target := b.call("Target.createTarget", map[string]any{"url": url})
	attached := b.call("Target.attachToTarget", map[string]any{"targetId": target["targetId"], "flatten": true})
	b.session, _ = attached["sessionId"].(string)
	return b
}

// call makes a call of the protocol and returns its result.
func (b *browser) call(method string, params map[string]any) map[string]any {
	b.t.Helper()
	b.id++
	request := map[string]any{"id": b.id, "method": method, "params": params}
	if b.session != "" {
		request["sessionId"] = b.session
	}
	text, err := json.Marshal(request)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		text, err := b.out.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
		var answer struct {
			ID     int
			Result map[string]any
			Error  struct{ Message string }
		}
		if err := json.Unmarshal(text[:len(text)-1], &answer); err != nil {
			b.t.Fatal(err)
		}
		switch {
		case answer.ID != b.id: // an event
		case answer.Error.Message != "":
			b.t.Fatalf("%s: %s", method, answer.Error.Message)
		default:
			return answer.Result
		}
	}
}

// run evaluates an expression in the page and returns its value if that is a text.
func (b *browser) run(expression string) string {
	b.t.Helper()
	answer := b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	if thrown, ok := answer["exceptionDetails"]; ok {
		b.t.Fatalf("%s: %v", expression, thrown)
	}
	result, _ := answer["result"].(map[string]any)
	text, _ := result["value"].(string)
	return text
}

// eventuallyShows waits until the page has a text.
func (b *browser) eventuallyShows(text string) {
	b.t.Helper()
	eventually.Within(b.t, browserPatience, "the page shows "+text, func() bool {
		return strings.Contains(b.run("document.body ? document.body.innerText : ''"), text)
	})
}
