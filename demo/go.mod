module github.com/seed80cd6120/locker/demo

go 1.26.0

require (
	github.com/chromedp/chromedp v0.23.0
	github.com/seed80cd6120/locker v0.0.0
)

require (
	github.com/chromedp/cdproto v0.159.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
)

replace github.com/seed80cd6120/locker => ../
