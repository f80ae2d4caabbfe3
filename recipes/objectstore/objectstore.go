// Package objectstore protects objects in a store such as S3 from writers whose lock is gone.
//
// Where does the old token come from? It is in the first line of the object, stored and read together with it. It is
// not in the metadata, because an ETag of S3 is that of the content: it would stay the same if a holder wrote what was
// there. The store cannot compare two numbers, but it can refuse a write if the object is not the one that was read
// (If-Match and its ETag; If-None-Match: * if there was none). So [Client.Put] reads the token, compares, and writes on
// the condition that nothing has changed meanwhile; if something has, it begins again.
//
// A new holder writes the object, if only with the content that it has, before it relies on what it reads: until then
// the store does not know of it, and still lets its predecessor write.
//
// S3 and most that speak its language have If-Match for PUT. Google Cloud Storage has x-goog-if-generation-match, and
// Azure If-Match. Objects of one prefix are protected one by one: a holder that replaces several needs an object that
// lists them, and writes that last.
package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// tokenPrefix begins the first line of an object; the token follows it.
const tokenPrefix = "Fencing-Token: "

// ErrLate is returned to a writer when a later holder of the lock has written the object.
var ErrLate = errors.New("objectstore: a later holder has written")

// Client reads and writes the objects of a bucket.
type Client struct {
	HTTP   *http.Client // one that signs requests
	Bucket string       // its URL
}

// Get returns an object, the token under which it was written and its ETag. There is no object if etag is "".
func (c *Client) Get(ctx context.Context, key string) (body []byte, token int64, etag string, err error) {
	response, err := c.do(ctx, http.MethodGet, key, nil, nil)
	if err != nil {
		return nil, 0, "", err
	}
	switch response.status {
	case http.StatusNotFound:
		return nil, 0, "", nil
	case http.StatusOK:
	default:
		return nil, 0, "", fmt.Errorf("objectstore: get %s: status %d", key, response.status)
	}
	body = response.body
	if line, rest, _ := bytes.Cut(body, []byte("\n")); bytes.HasPrefix(line, []byte(tokenPrefix)) { // else older than tokens
		if token, err = strconv.ParseInt(string(line[len(tokenPrefix):]), 10, 64); err != nil {
			return nil, 0, "", fmt.Errorf("objectstore: get %s: %w", key, err)
		}
		body = rest
	}
	if etag = response.header.Get("ETag"); etag == "" {
		return nil, 0, "", fmt.Errorf("objectstore: get %s: there is no ETag", key)
	}
	return body, token, etag, nil
}

// Put replaces an object, or makes it. It returns ErrLate if the object has a greater token.
func (c *Client) Put(ctx context.Context, token int64, key string, body []byte) error {
	content := fmt.Appendf(nil, "%s%d\n%s", tokenPrefix, token, body)
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		_, old, etag, err := c.Get(ctx, key)
		if err != nil {
			return err
		}
		if token < old {
			return ErrLate
		}
		header := make(http.Header)
		if etag == "" {
			header.Set("If-None-Match", "*")
		} else {
			header.Set("If-Match", etag)
		}
		response, err := c.do(ctx, http.MethodPut, key, header, content)
		if err != nil {
			return err
		}
		switch status := response.status; {
		case status == http.StatusOK || status == http.StatusCreated:
			return nil
		case pause > time.Second: // it is not others who are in the way: the store refuses every condition
			return fmt.Errorf("objectstore: put %s: status %d again and again", key, status)
		case status == http.StatusPreconditionFailed || status == http.StatusConflict:
			// changed since it was read
		case status == http.StatusNotFound && etag != "":
			// deleted since it was read
		default:
			return fmt.Errorf("objectstore: put %s: status %d", key, status)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type response struct {
	status int
	header http.Header
	body   []byte
}

func (c *Client) do(ctx context.Context, method, key string, header http.Header, body []byte) (*response, error) {
	path := strings.ReplaceAll((&url.URL{Path: key}).EscapedPath(), "+", "%2B") // S3 reads a plus as a space
	request, err := http.NewRequestWithContext(ctx, method, c.Bucket+"/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	r, err := c.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	return &response{r.StatusCode, r.Header, content}, err
}
