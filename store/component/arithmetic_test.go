package component

import "math/big"

// exact is a op b with any number of bits, and whether 64 are enough.
func exact(op string, x, y int64) (string, bool) {
	a, b, c := big.NewInt(x), big.NewInt(y), new(big.Int)
	switch {
	case op == "+":
		c.Add(a, b)
	case op == "-":
		c.Sub(a, b)
	case op == "*":
		c.Mul(a, b)
	case y == 0:
		return "", false
	default:
		remainder := new(big.Int)
		c.QuoRem(a, b, remainder)
		if remainder.Sign() != 0 && (remainder.Sign() < 0) != (y < 0) {
			c.Sub(c, big.NewInt(1))
			remainder.Add(remainder, b)
		}
		if op == "%" {
			c = remainder
		}
	}
	return c.String(), c.IsInt64()
}
