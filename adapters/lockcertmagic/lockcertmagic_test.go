package lockcertmagic

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/adapters/internal/replica"
	"github.com/seed80cd6120/locker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// authority signs what it is asked to sign, after a while.
type authority struct {
	key    *ecdsa.PrivateKey
	issued atomic.Int32
	before func() // called with each request
}

func newAuthority(t *testing.T, before func()) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key: key, before: before}
}

func (a *authority) IssuerKey() string { return "test" }

func (a *authority) Issue(ctx context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	a.before()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(a.issued.Add(1))),
		Subject:      pkix.Name{CommonName: "test"},
		DNSNames:     request.DNSNames,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// newConfig returns what one replica has.
func newConfig(t *testing.T, storage certmagic.Storage, issuer certmagic.Issuer) *certmagic.Config {
	t.Helper()
	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           zap.NewNop(),
	})
	t.Cleanup(cache.Stop)
	config = certmagic.New(cache, certmagic.Config{Storage: storage, Issuers: []certmagic.Issuer{issuer}, Logger: zap.NewNop()})
	return config
}

// Of replicas that need a certificate at the same time one obtains it, and all succeed.
func TestReplicas(t *testing.T) {
	locks, certificates := t.TempDir(), t.TempDir()
	issuer := newAuthority(t, func() { time.Sleep(20 * time.Millisecond) }) // long enough for the others to come
	var wg sync.WaitGroup
	for i := range 4 {
		config := newConfig(t, New(&certmagic.FileStorage{Path: certificates}, replica.Files(t, locks)), issuer)
		obtain := config.ObtainCertSync
		if i%2 == 1 {
			obtain = config.ObtainCertAsync // as in the background: the lease is renewed before each try
		}
		wg.Go(func() {
			if err := obtain(t.Context(), "example.org"); err != nil {
				t.Error(err)
			}
			if err := config.RenewCertSync(t.Context(), "example.org", false); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := issuer.issued.Load(); n != 1 {
		t.Errorf("%d certificates issued, want 1", n)
	}
}

// A request to the authority that is cancelled has freed the name when certmagic returns.
func TestCancelled(t *testing.T) {
	a := replica.New(t, memory.NewStore())
	ctx, cancel := context.WithCancel(t.Context())
	storage := New(&certmagic.FileStorage{Path: t.TempDir()}, a)
	config := newConfig(t, storage, newAuthority(t, cancel))
	if err := config.ObtainCertSync(ctx, "example.org"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for name, err := range locker.Names(t.Context(), a, "") {
		t.Errorf("still locked: %s %v", name, err)
	}
}

// newStorage returns two storages, the link of the first, and what both are locked by.
func newStorage(t *testing.T) (a, b *Storage, link *memory.Link, store *memory.Store) {
	t.Helper()
	store = memory.NewStore()
	la, link := replica.Remote(t, store)
	lb := replica.New(t, store)
	files := &certmagic.FileStorage{Path: t.TempDir()}
	return New(files, la), New(files, lb), link, store
}

func TestLock(t *testing.T) { synctest.Test(t, testLock) }

func testLock(t *testing.T) {
	a, b, _, store := newStorage(t)
	ctx, cancel := context.WithCancel(t.Context())
	if err := a.Lock(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	if ok, err := b.TryLock(t.Context(), "x"); ok || err != nil {
		t.Errorf("taken: %v, %v", ok, err)
	}
	short, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer end()
	if err := b.Lock(short, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("taken: %v", err)
	}
	if err := a.RenewLockLease(ctx, "x", time.Hour); err != nil {
		t.Error(err)
	}
	cancel()
	if err := a.Unlock(ctx, "x"); err != nil {
		t.Errorf("with a context that has ended: %v", err)
	}
	if err := b.Lock(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	if ok, err := b.TryLock(t.Context(), "y"); !ok || err != nil {
		t.Errorf("free: %v, %v", ok, err)
	}
	for _, name := range []string{"x", "y"} {
		if err := b.Unlock(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if err := a.Unlock(t.Context(), "x"); !errors.Is(err, ErrNotLocked) {
		t.Error(err)
	}
	if err := a.RenewLockLease(t.Context(), "x", time.Hour); !errors.Is(err, ErrNotLocked) {
		t.Error(err)
	}
	store.Fail(errors.New("out of order"))
	if ok, err := a.TryLock(t.Context(), "x"); ok || err == nil {
		t.Errorf("outage: %v, %v", ok, err)
	}
	store.Heal()
	if len(a.held) != 0 || len(b.held) != 0 {
		t.Errorf("left: %v, %v", a.held, b.held)
	}
}

// A lock that was lost is taken again when its lease is to be renewed, unless another has it.
func TestLoss(t *testing.T) { synctest.Test(t, testLoss) }

func testLoss(t *testing.T) {
	a, b, link, _ := newStorage(t)
	ctx := t.Context()
	if err := a.Lock(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	link.Freeze()
	if err := b.Lock(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	link.Heal()
	if err := a.RenewLockLease(ctx, "x", time.Hour); !errors.Is(err, locker.ErrNotAcquired) {
		t.Errorf("while another has it: %v", err)
	}
	if err := b.Unlock(ctx, "x"); err != nil {
		t.Error(err)
	}
	if err := a.RenewLockLease(ctx, "x", time.Hour); err != nil {
		t.Errorf("when it is free: %v", err)
	}
	if ok, err := b.TryLock(ctx, "x"); ok || err != nil {
		t.Errorf("not taken again: %v, %v", ok, err)
	}
	if err := a.Unlock(ctx, "x"); err != nil {
		t.Error(err)
	}
}

// The Unlock that belongs to a lost lock does not release the lock that came after it.
func TestUnlockAfterLoss(t *testing.T) { synctest.Test(t, testUnlockAfterLoss) }

func testUnlockAfterLoss(t *testing.T) {
	a, b, _, store := newStorage(t)
	ctx := t.Context()
	if err := a.Lock(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	store.Destroy("x")
	if err := a.Lock(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	if err := a.Unlock(ctx, "x"); !errors.Is(err, locker.ErrLost) {
		t.Errorf("of the lost one: %v", err)
	}
	if ok, err := b.TryLock(ctx, "x"); ok || err != nil {
		t.Errorf("the second does not hold: %v, %v", ok, err)
	}
	if err := a.Unlock(ctx, "x"); err != nil {
		t.Error(err)
	}
}

// All of this is so with the newest release of certmagic, too.
func TestNewest(t *testing.T) { replica.Newest(t) }

// silent is a storage of which not all may be logged.
type silent struct {
	certmagic.Storage
	Key string
}

// discreet says itself what may be.
type discreet struct{ silent }

func (discreet) String() string { return "a storage" }

// What certmagic logs of the storage is what that says of itself, or its type, but no key.
func TestString(t *testing.T) {
	own := silent{Key: "s3cret"}
	for want, s := range map[string]certmagic.Storage{"a storage": discreet{own}, "lockcertmagic.silent": own} {
		if got := fmt.Sprint(New(s, nil)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
