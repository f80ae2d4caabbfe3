//go:build browser

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// page is the page in a browser.
type page struct {
	*testing.T
	ctx context.Context
}

// open builds the page and opens it in Chromium.
func open(t *testing.T) page {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is missing: as root: apt-get install chromium (make demo-test does it)")
	}
	server := httptest.NewServer(http.FileServer(http.Dir(build(t))))
	t.Cleanup(server.Close)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() { chromedp.Cancel(ctx) })
	p := page{t, ctx}
	p.run(chromedp.Navigate(server.URL), chromedp.WaitVisible("#failover", chromedp.ByQuery))
	return p
}

func (p page) run(actions ...chromedp.Action) {
	p.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// click clicks on a button as soon as it can be clicked on.
func (p page) click(selector string) {
	p.Helper()
	p.run(chromedp.WaitEnabled(selector, chromedp.ByQuery), chromedp.Click(selector, chromedp.ByQuery))
}

func button(client int, act string) string {
	return fmt.Sprintf("#client-%d [data-act=%s]", client-1, act)
}

// shows waits until the element's text contains want.
func (p page) shows(selector, want string) {
	p.Helper()
	script := fmt.Sprintf("document.querySelector(%q).textContent.includes(%q)", selector, want)
	if err := chromedp.Run(p.ctx, chromedp.Poll(script, nil, chromedp.WithPollingTimeout(time.Minute))); err != nil {
		var text string
		p.run(chromedp.Text("body", &text, chromedp.ByQuery))
		p.Fatalf("%s does not show %q: %v\n%s", selector, want, err, text)
	}
}

func TestPauseInBrowser(t *testing.T) {
	p := open(t)
	p.click(button(1, "acquire"))
	p.shows("#holder", "client 1, token 1")
	p.click(button(2, "acquire"))
	p.shows("#waiting", "client 2")
	p.click(button(3, "acquire"))
	p.shows("#waiting", "client 2, client 3")
	p.click(button(1, "pause"))
	p.click(button(1, "write"))
	p.shows("#client-0 .sent", "not arrived: 1")
	p.shows("#log", "client 1: context ended: lock lost")
	p.shows("#holder", "client 2, token 2")
	p.click(button(2, "write"))
	p.shows("#value", `"client 2, write 1", token 2`)
	p.click(button(1, "pause"))
	p.shows("#log .refused", "store: refused: token 1 is older than 2")
	p.shows("#value", `"client 2, write 1", token 2`)
	p.click(button(2, "release"))
	p.shows("#holder", "client 3, token 3")
	p.shows("#waiting", "nobody")
}

func TestFailOverInBrowser(t *testing.T) {
	p := open(t)
	p.click(button(1, "acquire"))
	p.shows("#holder", "client 1, token 1")
	p.click(button(2, "acquire"))
	p.shows("#waiting", "client 2")
	p.click("#failover")
	p.shows("#holder", "client 2, token ")
	// The first holder learns of it some seconds later: both clicks are in one script, so that a slow machine is in time.
	var both bool
	p.run(chromedp.Evaluate(`(() => {
		const clients = JSON.parse(window.story.state()).Clients;
		window.story.write(1);
		window.story.write(0);
		return clients[0].Holds && clients[1].Holds;
	})()`, &both))
	if !both {
		t.Fatal("not two holders")
	}
	p.shows("#value", `"client 2, write 1"`)
	p.shows("#log .refused", "store: refused: token 1 is older than ")
	p.shows("#log", "client 1: context ended: lock lost")
	var html string
	p.run(chromedp.OuterHTML("#log", &html, chromedp.ByQuery))
	if strings.Contains(html, `accepted: "client 1`) {
		t.Errorf("the late write was accepted: %s", html)
	}
}
