package servers

import (
	"errors"
	"testing"
)

func TestStartTakesAnotherPort(t *testing.T) {
	tries := 0
	got, err := retryPorts(func() (int, error) {
		if tries++; tries < 3 {
			return 0, final(errPortTaken)
		}
		return tries, nil
	})
	if got != 3 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	tries = 0
	_, err = retryPorts(func() (int, error) { tries++; return 0, errPortTaken })
	if tries != startTries || !errors.Is(err, errPortTaken) {
		t.Errorf("%d tries, %v", tries, err)
	}
}
