//go:build race

package e2e

func init() { race = []string{"-race"} }
