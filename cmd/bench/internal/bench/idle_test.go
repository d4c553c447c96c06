package bench

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitUntilIdle(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		load  func(since time.Duration) float64
		after time.Duration // until it is known
		idle  bool
	}{
		"idle":         {func(time.Duration) float64 { return 0.4 }, 0, true},
		"just now":     {func(d time.Duration) float64 { return 10 * math.Exp(-d.Minutes()) }, 3 * time.Minute, true},
		"busy":         {func(time.Duration) float64 { return 6 }, time.Minute, false},
		"hardly falls": {func(d time.Duration) float64 { return 6 - d.Minutes()/10 }, idlePatience, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, said := time.Now(), 0
				got, err := waitUntilIdle(t.Context(), 4, func() (float64, float64, error) {
					now := tt.load(time.Since(began))
					return now, now, nil
				}, func(string) { said++ })
				if after := time.Since(began); after != tt.after {
					t.Errorf("known after %v, want %v", after, tt.after)
				}
				if idle := err == nil; idle != tt.idle || idle && got > 4*idlePerCore {
					t.Errorf("load %v, error %v", got, err)
				}
				if err != nil && (!errors.Is(err, ErrNotIdle) || !strings.Contains(err.Error(), "0.60 at most on 4 cores")) {
					t.Errorf("the error doesn't say what is wanted: %v", err)
				}
				if want := int(tt.after / idleLook); said != want {
					t.Errorf("%d looks were told of, want %d", said, want)
				}
			})
		})
	}
	broken := errors.New("no such file")
	if _, err := waitUntilIdle(t.Context(), 4, func() (float64, float64, error) { return 0, 0, broken }, nil); !errors.Is(err, broken) || !errors.Is(err, ErrNotIdle) {
		t.Errorf("err = %v", err)
	}
	if one, five, err := loadAverage(); err != nil || one < 0 || five < 0 {
		t.Errorf("this machine's load average: %v, %v, %v", one, five, err)
	}
}
