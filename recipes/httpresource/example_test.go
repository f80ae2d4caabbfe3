package httpresource_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"

	"github.com/seed80cd6120/locker/memory"
	"github.com/seed80cd6120/locker/recipes/httpresource"
)

// A client writes under its lock; who comes with an older token is refused.
func Example() {
	ctx := context.Background()
	tokens := map[string]int64{} // of a real resource they are on its disk
	fence := httpresource.Fence{
		Resource: func(r *http.Request) string { return r.URL.Path },
		Load:     func(_ context.Context, resource string) (int64, error) { return tokens[resource], nil },
		Store:    func(_ context.Context, resource string, token int64) error { tokens[resource] = token; return nil },
	}
	resource := fence.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	l, err := memory.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close(ctx)
	for range 2 {
		lock, err := l.Acquire(ctx, "orders/42")
		if err != nil {
			fmt.Println(err)
			return
		}
		request := httptest.NewRequest(http.MethodPut, "/orders/42", nil)
		request.Header.Set("Fencing-Token", strconv.FormatInt(lock.Token(), 10))
		response := httptest.NewRecorder()
		resource.ServeHTTP(response, request)
		fmt.Println("token", lock.Token(), response.Code)
		lock.Release(ctx)
	}
	late := httptest.NewRequest(http.MethodPut, "/orders/42", nil)
	late.Header.Set("Fencing-Token", "1")
	response := httptest.NewRecorder()
	resource.ServeHTTP(response, late)
	fmt.Println("token 1", response.Code)
	// Output:
	// token 1 200
	// token 2 200
	// token 1 412
}
