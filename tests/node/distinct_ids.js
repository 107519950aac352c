// The published clients of 2.x make the id of a call from the millisecond and three random digits, so of two calls in
// one millisecond one pair in a thousand has one id, and counts as one call. Here these digits count up instead.

let count = 0

Math.random = () => (count++ % 1000 + 0.5) / 1000
