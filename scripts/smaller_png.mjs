// Chromium's pictures, smaller: fewer shades of a colour, and rows without a filter, as text compresses best.

import { crc32, deflateSync, inflateSync } from 'node:zlib'

const HEAD_BYTES = 8
const PIXEL_BYTES = 3
const SHADE = 8

/** The same picture; it must be of 8-bit RGB and not interlaced. */
export function smallerPng(png) {
  const chunks = new Map()
  for (let at = HEAD_BYTES; at < png.length;) {
    const end = at + 8 + png.readUInt32BE(at)
    const type = png.toString('latin1', at + 4, at + 8)
    chunks.set(type, [...(chunks.get(type) ?? []), png.subarray(at + 8, end)])
    at = end + 4
  }
  const [header] = chunks.get('IHDR')
  if (header.subarray(8).toString('hex') !== '0802000000') throw new Error('the picture is not of 8-bit RGB')
  const rows = inflateSync(Buffer.concat(chunks.get('IDAT')))
  unfilter(rows, header.readUInt32BE(0) * PIXEL_BYTES + 1)
  const data = deflateSync(rows, { level: 9, memLevel: 9 })
  return Buffer.concat([png.subarray(0, HEAD_BYTES), chunk('IHDR', header), chunk('IDAT', data), chunk('IEND', Buffer.alloc(0))])
}

function unfilter(rows, width) {
  const predictors = [() => 0, (a) => a, (_, b) => b, (a, b) => (a + b) >> 1, paeth]
  for (let start = 0; start < rows.length; start += width) {
    const predict = predictors[rows[start]]
    rows[start] = 0
    for (let at = start + 1; at < start + width; at += 1) {
      const isFirst = at <= start + PIXEL_BYTES
      const left = isFirst ? 0 : rows[at - PIXEL_BYTES]
      const above = start ? rows[at - width] : 0
      rows[at] += predict(left, above, isFirst || !start ? 0 : rows[at - width - PIXEL_BYTES])
    }
  }
  for (let at = 0; at < rows.length; at += 1) if (at % width) rows[at] = Math.min(255, Math.round(rows[at] / SHADE) * SHADE)
}

function paeth(a, b, c) {
  const [byA, byB, byC] = [b - c, a - c, a + b - 2 * c].map(Math.abs)
  return byA <= byB && byA <= byC ? a : byB <= byC ? b : c
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type), data])
  const made = Buffer.alloc(body.length + 8)
  made.writeUInt32BE(data.length)
  body.copy(made, 4)
  made.writeUInt32BE(crc32(body), body.length + 4)
  return made
}
