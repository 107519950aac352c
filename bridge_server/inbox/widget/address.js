// The spelling of addresses (EIP-55), which sign-in messages need and wallets may leave out.

const WORD = (1n << 64n) - 1n
const RATE_BYTES = 136

const rotated = (word, bits) => ((word << BigInt(bits)) | (word >> BigInt(64 - bits))) & WORD

/** Keccak-f[1600] on 25 lanes, in place. */
function permute(lanes) {
  let register = 1
  for (let round = 0; round < 24; round += 1) {
    const columns = [0, 1, 2, 3, 4].map((x) => lanes.reduce((sum, lane, at) => (at % 5 === x ? sum ^ lane : sum), 0n))
    lanes.forEach((lane, at) => {
      lanes[at] = lane ^ columns[(at + 4) % 5] ^ rotated(columns[(at + 1) % 5], 1)
    })
    let [x, y, carried] = [1, 0, lanes[1]]
    for (let step = 0; step < 24; step += 1) {
      ;[x, y] = [y, (2 * x + 3 * y) % 5]
      ;[carried, lanes[x + 5 * y]] = [lanes[x + 5 * y], rotated(carried, (((step + 1) * (step + 2)) / 2) % 64)]
    }
    for (let row = 0; row < 25; row += 5) {
      const old = lanes.slice(row, row + 5)
      old.forEach((lane, at) => (lanes[row + at] = lane ^ (~old[(at + 1) % 5] & old[(at + 2) % 5])))
    }
    for (let bit = 0; bit < 7; bit += 1) {
      if (register & 1) lanes[0] ^= 1n << BigInt(2 ** bit - 1)
      register = (register << 1) ^ (register & 128 ? 0x171 : 0)
    }
  }
}

/** The Keccak-256 hash of a text of at most 135 bytes, in hexadecimal. */
export function keccak256(text) {
  const block = new DataView(new ArrayBuffer(RATE_BYTES))
  const bytes = new TextEncoder().encode(text)
  bytes.forEach((byte, at) => block.setUint8(at, byte))
  block.setUint8(bytes.length, 0x01)
  block.setUint8(RATE_BYTES - 1, block.getUint8(RATE_BYTES - 1) | 0x80)
  const lanes = Array.from({ length: 25 }, (_, at) => (8 * at < RATE_BYTES ? block.getBigUint64(8 * at, true) : 0n))
  permute(lanes)
  lanes.slice(0, 4).forEach((lane, at) => block.setBigUint64(8 * at, lane, true))
  return hexOf(new Uint8Array(block.buffer, 0, 32))
}

/** Bytes as hexadecimal digits. */
export const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')

/** The address with the letter case that is its checksum. */
export function checksummed(address) {
  const digits = address.slice(2).toLowerCase()
  const hash = keccak256(digits)
  return `0x${Array.from(digits, (digit, at) => (hash[at] > '7' ? digit.toUpperCase() : digit)).join('')}`
}
