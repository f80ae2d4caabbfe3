package lockhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/seed80cd6120/locker/adapters/lockhttp"
	"github.com/seed80cd6120/locker/memory"
)

// While an order is being paid, a second request for it is refused; one for another order is not.
func Example() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close(ctx)

	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock := lockhttp.FromContext(r.Context())
		fmt.Fprintf(w, "paid, with token %d", lock.Token())
	})
	orders := lockhttp.Middleware{
		Locker: l,
		Name:   func(r *http.Request) string { return "orders/" + r.PathValue("id") },
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}", orders.Wrap(pay))

	lock, err := l.Acquire(ctx, "orders/42") // as another replica would
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/orders/42", "/orders/43"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("POST", path, nil))
		fmt.Println(path, w.Code, w.Header().Get("Retry-After"))
	}
	lock.Release(ctx)
	// Output:
	// /orders/42 423 1
	// /orders/43 200
}
