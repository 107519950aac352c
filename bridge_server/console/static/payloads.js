// Payloads are opened and sealed in this page alone: keys are sent nowhere.
//
// Plain and generation 0.7: AES-256-CBC over {"data": content}, HMAC-SHA256 over the hexadecimal text of ciphertext
// and IV. Generation 1.x: AES-256-CBC over the content, HMAC over the bytes. Generation 2.x: ChaCha20-Poly1305
// (RFC 8439), which WebCrypto does not have, in a Base64 envelope.
(() => {
  const KEY_BYTES = 32
  const text = new TextEncoder()
  const remembered = new Map()

  const fromHex = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16))
  const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
  const fromBase64 = (encoded) => Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0))
  const joined = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]))

  function subtle() {
    if (!crypto.subtle) throw new Error('The browser decrypts on localhost and over HTTPS only: open the console there.')
    return crypto.subtle
  }

  function decoded(value) {
    try {
      return decodeURIComponent(decodeURIComponent(value))
    } catch {
      throw new Error('The URI is not percent-encoded as it should be.')
    }
  }

  /** The key in a pairing URI of any generation, in hexadecimal or in Base64. */
  function readKey(given) {
    const trimmed = given.trim()
    const parameters = new Map((trimmed.split('?')[1] ?? '').split('&').map((pair) => {
      const [name, ...value] = pair.split('=')
      return [name, value.join('=')]
    }))
    const spelled = trimmed.includes('?') ? decoded(parameters.get('symKey') ?? parameters.get('key') ?? '') : trimmed
    if (/^[0-9a-f]{64}$/i.test(spelled)) return fromHex(spelled)
    try {
      const key = fromBase64(spelled)
      if (key.length === KEY_BYTES) return key
    } catch { /* said below */ }
    throw new Error('This is neither a pairing URI with its key, nor a key of 32 bytes in hexadecimal or Base64.')
  }

  const AUTHENTICATED = {
    0.7: (data, iv) => text.encode(data + iv),
    1: (data, iv) => fromHex(data + iv),
  }

  async function macKey(key, use) {
    return subtle().importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, [use])
  }

  async function openBlocks(payload, key) {
    const { data, hmac, iv } = payload
    const isHex = [data, hmac, iv].every((part) => typeof part === 'string' && /^([0-9a-f]{2})+$/i.test(part))
    if (!isHex) throw new Error('The payload is not {data, hmac, iv} in hexadecimal.')
    const verifier = await macKey(key, 'verify')
    for (const [generation, authenticated] of Object.entries(AUTHENTICATED)) {
      const bytes = authenticated(data, iv.toLowerCase())
      if (!await subtle().verify('HMAC', verifier, fromHex(hmac), bytes)) continue
      const cipher = await subtle().importKey('raw', key, 'AES-CBC', false, ['decrypt'])
      const plain = await subtle().decrypt({ name: 'AES-CBC', iv: fromHex(iv) }, cipher, fromHex(data))
      const content = JSON.parse(new TextDecoder().decode(plain))
      return { generation, content: generation === '0.7' ? content.data : content }
    }
    throw new Error('The payload was sealed with another key, or changed on its way.')
  }

  /** A content as `{data, hmac, iv}` of this generation. */
  async function sealBlocks(content, key, generation, iv = crypto.getRandomValues(new Uint8Array(16))) {
    const cipher = await subtle().importKey('raw', key, 'AES-CBC', false, ['encrypt'])
    const plain = text.encode(JSON.stringify(generation === '0.7' ? { data: content } : content))
    const data = toHex(new Uint8Array(await subtle().encrypt({ name: 'AES-CBC', iv }, cipher, plain)))
    const bytes = AUTHENTICATED[generation](data, toHex(iv))
    const mac = await subtle().sign('HMAC', await macKey(key, 'sign'), bytes)
    return { data, hmac: toHex(new Uint8Array(mac)), iv: toHex(iv) }
  }

  function chachaBlock(words, counter) {
    const start = Uint32Array.from(words)
    start[12] = counter
    const state = Uint32Array.from(start)
    const mix = (a, b, c, d) => {
      for (const [sum, add, turned, bits] of [[a, b, d, 16], [c, d, b, 12], [a, b, d, 8], [c, d, b, 7]]) {
        state[sum] += state[add]
        const mixed = state[turned] ^ state[sum]
        state[turned] = (mixed << bits) | (mixed >>> (32 - bits))
      }
    }
    for (let round = 0; round < 10; round += 1) {
      mix(0, 4, 8, 12); mix(1, 5, 9, 13); mix(2, 6, 10, 14); mix(3, 7, 11, 15)
      mix(0, 5, 10, 15); mix(1, 6, 11, 12); mix(2, 7, 8, 13); mix(3, 4, 9, 14)
    }
    const block = new DataView(new ArrayBuffer(64))
    state.forEach((word, place) => block.setUint32(4 * place, (word + start[place]) >>> 0, true))
    return new Uint8Array(block.buffer)
  }

  const littleEndian = (bytes) => bytes.reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n)

  function poly1305(key, message) {
    const factor = littleEndian(key.subarray(0, 16)) & 0x0ffffffc0ffffffc0ffffffc0fffffffn
    let sum = 0n
    for (let place = 0; place < message.length; place += 16) {
      const block = message.subarray(place, place + 16)
      sum = (sum + littleEndian(block) + (1n << BigInt(8 * block.length))) * factor % ((1n << 130n) - 5n)
    }
    const tag = (sum + littleEndian(key.subarray(16, 32))) & ((1n << 128n) - 1n)
    return Uint8Array.from({ length: 16 }, (_, place) => Number((tag >> BigInt(8 * place)) & 255n))
  }

  function openEnvelope(envelope, key) {
    const bytes = fromBase64(envelope)
    if (bytes[0] === 1) throw new Error('The envelope is sealed to a public key (type 1): no pairing URI opens it.')
    if (bytes[0] !== 0 || bytes.length < 29) throw new Error('The payload is no envelope of generation 2.x.')
    const sealed = bytes.subarray(13, -16)
    const head = new DataView(joined(text.encode('expand 32-byte k'), key, [0, 0, 0, 0], bytes.subarray(1, 13)).buffer)
    const words = Uint32Array.from({ length: 16 }, (_, place) => head.getUint32(4 * place, true))
    const lengths = new DataView(new ArrayBuffer(16))
    lengths.setUint32(8, sealed.length, true)
    const padding = new Uint8Array((16 - sealed.length % 16) % 16)
    const tag = poly1305(chachaBlock(words, 0), joined(sealed, padding, new Uint8Array(lengths.buffer)))
    if (tag.reduce((differing, byte, place) => differing | (byte ^ bytes.at(place - 16)), 0)) {
      throw new Error('The payload was sealed with another key, or changed on its way.')
    }
    const plain = Uint8Array.from(sealed)
    for (let place = 0; place < plain.length; place += 64) {
      chachaBlock(words, place / 64 + 1).forEach((byte, offset) => { plain[place + offset] ^= byte })
    }
    return { generation: '2', content: JSON.parse(new TextDecoder().decode(plain)) }
  }

  /** The content of a payload, the text of an object or an envelope, and the generation that sealed it. */
  async function open(payload, given) {
    const key = readKey(given)
    let found = payload.trim()
    try {
      found = JSON.parse(found)
    } catch { /* an envelope is no JSON */ }
    if (typeof found === 'string' && /^[A-Za-z0-9+/]+=*$/.test(found)) return openEnvelope(found, key)
    if (found === null || typeof found !== 'object') throw new Error('The payload is neither {data, hmac, iv} nor an envelope.')
    return openBlocks(found, key)
  }

  /** What a person reads: characters that cannot be seen as <U+202E>. */
  function readable(content) {
    return JSON.stringify(content, null, 1)
      .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu, (character) => character === '\n' ? character
        : `<U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}>`)
  }

  async function sendJson(path, document) {
    const response = await fetch(path, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(document),
    })
    const answer = await response.json().catch(() => ({}))
    if (!response.ok) throw new Error(answer.detail ?? `The server answered ${response.status}.`)
    return answer
  }

  /** What this server's own wallet answers to a call. */
  async function walletsResult({ method, params }) {
    const answer = await sendJson('/rpc', { jsonrpc: '2.0', id: 1, method, params })
    if (answer.error) throw new Error(`This server's wallet: ${answer.error.message}`)
    return answer.result
  }

  customElements.define('payload-opener', class extends HTMLElement {
    static open = open
    static seal = (content, given, generation, iv) => sealBlocks(content, readKey(given), generation, iv && fromHex(iv))

    connectedCallback() {
      const { session } = this.dataset
      this.secret = this.querySelector('.secret')
      this.on('.decrypt', () => this.openAll())
      this.on('.approve', async () => this.answer({ result: await walletsResult(this.call), approved: true }))
      this.on('.reject', () => this.answer({ error: { code: 4001, message: 'User rejected the request.' }, approved: false }))
      this.on('.send-result', () => this.answer({ result: JSON.parse(this.querySelector('.result').value), approved: true }))
      this.secret.addEventListener('keydown', (event) => { if (event.key === 'Enter') this.openAll() })
      if (session && remembered.has(session)) {
        this.secret.value = remembered.get(session)
        this.openAll()
      }
    }

    on(selector, work) {
      this.querySelector(selector)?.addEventListener('click', async () => {
        try {
          await work()
        } catch (error) {
          this.say('.answering', `Nothing was answered. ${error.message}`)
        }
      })
    }

    say(selector, words) {
      const place = this.querySelector(selector)
      if (place) place.textContent = words
    }

    async openAll() {
      let count = 0
      this.say('.opening', '')
      for (const sealed of this.querySelectorAll('.sealed')) {
        const payload = sealed.querySelector('textarea').value
        if (!payload.trim()) continue
        sealed.querySelector('pre')?.remove()
        try {
          const opened = await open(payload, this.secret.value)
          const shown = sealed.appendChild(document.createElement('pre'))
          shown.className = 'opened'
          shown.tabIndex = 0
          shown.textContent = readable(opened.content)
          this.keep(opened, payload)
          count += 1
        } catch (error) {
          this.say('.opening', error.message)
        }
      }
      if (count) this.say('.opening', 'Opened: the content is below the payload.')
    }

    keep(opened, payload) {
      if (this.dataset.session) remembered.set(this.dataset.session, this.secret.value)
      if (typeof opened.content?.method !== 'string') return
      this.call = opened.content
      this.generation = opened.generation
      this.isText = !payload.trim().startsWith('{')
      this.querySelector('.answer-hint')?.remove()
      for (const button of this.querySelectorAll('.approve, .reject, .send-result')) button.disabled = false
    }

    async answer(status) {
      const content = { id: this.call.id ?? null, jsonrpc: '2.0', ...status }
      const payload = await sealBlocks(content, readKey(this.secret.value), this.generation)
      const encryptionPayload = this.isText ? JSON.stringify(payload) : payload
      await sendJson(`/call-status/${this.dataset.call}/new`, { encryptionPayload })
      for (const button of this.querySelectorAll('.approve, .reject, .send-result')) button.disabled = true
      this.say('.answering', 'The call is answered.')
    }
  })

  customElements.define('copy-texts', class extends HTMLElement {
    connectedCallback() {
      for (const button of this.querySelectorAll('[data-from]')) button.addEventListener('click', () => this.copy(button))
    }

    async copy(button) {
      const source = this.querySelector(`#${button.dataset.from}`)
      let words = 'Copied.'
      try {
        await navigator.clipboard.writeText(source.textContent)
      } catch {
        source.closest('details').open = true
        getSelection().selectAllChildren(source)
        words = 'Selected: copy it with the keyboard.'
      }
      this.querySelector('[role=status]').textContent = words
    }
  })
})()
