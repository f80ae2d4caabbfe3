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

const failOver = "#failover" // the button

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
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute))
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() { chromedp.Cancel(ctx) })
	p := page{t, ctx}
	p.run(chromedp.Navigate(server.URL+"?ttl=15s"), chromedp.WaitVisible(chromedp.CSS(failOver))) // longer than a busy machine stands still
	return p
}

func (p page) run(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// click clicks on buttons, on each as soon as it can be clicked on.
func (p page) click(selectors ...string) {
	p.Helper()
	for _, selector := range selectors {
		p.run(chromedp.WaitEnabled(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)))
	}
}

// clickAtOnce clicks on buttons in one script, so that no time passes between them.
func (p page) clickAtOnce(selectors ...string) {
	p.Helper()
	var script strings.Builder
	for _, selector := range selectors {
		fmt.Fprintf(&script, "document.querySelector(%q).click();", selector)
	}
	p.run(chromedp.Evaluate[chromedp.Void](script.String()))
}

func button(client int, act string) string {
	return fmt.Sprintf("#client-%d [data-act=%s]", client-1, act)
}

// shows waits until the element's text contains want.
func (p page) shows(selector, want string) {
	p.Helper()
	script := fmt.Sprintf("document.querySelector(%q).textContent.includes(%q)", selector, want)
	poll := chromedp.Poll[chromedp.Void](script, chromedp.WithPollingTimeout(time.Minute))
	if err := chromedp.Do(p.ctx, poll); err != nil {
		p.Fatalf("%s does not show %q: %v\n%s", selector, want, err, p.text("body"))
	}
}

func (p page) text(selector string) string {
	p.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Text(chromedp.CSS(selector)))
	if err != nil {
		p.Fatal(err)
	}
	return text
}

func TestPauseInBrowser(t *testing.T) {
	p := open(t)
	p.click(button(1, "acquire"))
	p.shows("#holder", "client 1, token 1")
	p.click(button(2, "acquire"))
	p.shows("#waiting", "client 2")
	p.click(button(3, "acquire"))
	p.shows("#waiting", "client 2, client 3")
	p.clickAtOnce(button(1, "pause"), button(1, "write"))
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
	p.clickAtOnce(failOver)
	p.shows("#holder", "client 2, token ")
	p.clickAtOnce(button(1, "write"), button(2, "write"), button(1, "write"))
	p.shows("#value", `"client 2, write 1"`)
	p.shows("#log", `store: accepted: "client 1, write 1", token 1`)
	p.shows("#log .refused", "store: refused: token 1 is older than ")
	p.shows("#log", "client 1: context ended: lock lost")
	p.shows("#value", `"client 2, write 1"`)
	p.click(button(2, "release"))
	p.shows("#holder", "nobody")
}
