// The stylesheet: constructed, because a strict Content-Security-Policy refuses inline styles.

const SHEET = `
:host {
  --accent: var(--bridge-inbox-accent, #2a57cf); --on-accent: var(--bridge-inbox-on-accent, #fff);
  --paper: var(--bridge-inbox-background, #fff); --ink: var(--bridge-inbox-color, #1b1c22);
  --faint: var(--bridge-inbox-muted, #585b68); --line: var(--bridge-inbox-line, #d9dae2);
  --bad: var(--bridge-inbox-error, #a8201a); --radius: var(--bridge-inbox-radius, .5rem);
  display: block; color: var(--ink); background: var(--paper); border: 1px solid var(--line);
  border-radius: var(--radius); font: var(--bridge-inbox-font, 15px/1.5 system-ui, sans-serif);
  overflow-wrap: anywhere; text-align: start; container-type: inline-size;
}
@media (prefers-color-scheme: dark) {
  :host {
    --accent: var(--bridge-inbox-accent, #9db6ff); --on-accent: var(--bridge-inbox-on-accent, #10162b);
    --paper: var(--bridge-inbox-background, #1c1e25); --ink: var(--bridge-inbox-color, #e8e9ef);
    --faint: var(--bridge-inbox-muted, #a8abb9); --line: var(--bridge-inbox-line, #363944);
    --bad: var(--bridge-inbox-error, #ff9d96);
  }
}
:host([hidden]), [hidden] { display: none !important; }
* { box-sizing: border-box; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: .2rem; }
.header, .filters, .bar, .actions { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; padding: .75rem 1rem; }
.actions { padding: 0; }
.menu { display: none; }
@container (max-width: 28rem) {
  .menu { display: block; }
  .actions:not(.open) { display: none; }
  .actions { flex-basis: 100%; }
}
h2, h3, p, ul, fieldset { margin: 0; padding: 0; border: 0; }
h2 { font-size: 1.1em; flex: 1; display: flex; gap: .5rem; align-items: center; white-space: nowrap; }
h2:focus { outline: none; }
h3 { font-size: 1em; font-weight: inherit; }
.badge {
  background: var(--accent); color: var(--on-accent); border-radius: 1em; padding: 0 .55em; font-size: .85em; font-weight: bold;
}
button {
  font: inherit; color: inherit; background: transparent; border: 1px solid var(--line); border-radius: var(--radius);
  padding: .3rem .7rem; min-height: 2.25rem; cursor: pointer;
}
button:hover { border-color: var(--accent); }
button:disabled { cursor: default; color: var(--faint); }
button[aria-pressed=true], button.main { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
.message { padding: 0 1rem; color: var(--faint); }
.message:not(:empty) { padding-bottom: .75rem; }
.error { color: var(--bad); }
.filters { padding-top: 0; }
.sign-in, .settings { display: grid; gap: .75rem; padding: 0 1rem 1rem; }
.wallets { display: flex; flex-wrap: wrap; gap: .5rem; }
legend { padding: 0; font-weight: bold; }
label { display: flex; gap: .5rem; align-items: center; min-height: 2rem; }
fieldset button { margin-top: .25rem; }
input { width: 1.1em; height: 1.1em; accent-color: var(--accent); }
ul { list-style: none; }
li { border-top: 1px solid var(--line); padding: .6rem 1rem; }
li button { display: flex; gap: .6rem; width: 100%; min-height: 1.75rem; border: 0; padding: 0; text-align: start; align-items: baseline; }
li button:hover { color: var(--accent); }
.dot { flex: none; width: .6rem; height: .6rem; border-radius: 50%; background: var(--accent); visibility: hidden; }
li.unread .dot { visibility: visible; }
li.unread .title { font-weight: bold; }
.facts, .opened, .preview { padding-inline-start: 1.2rem; }
.preview { overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
.facts { color: var(--faint); font-size: .87em; }
.opened { padding-block: .35rem; display: grid; gap: .35rem; justify-items: start; }
a { color: var(--accent); }
@media (forced-colors: active) {
  .dot { background: CanvasText; forced-color-adjust: none; }
  button[aria-pressed=true] { outline: 3px solid; }
}
.unseen { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; white-space: nowrap; }
`

export const styles = new CSSStyleSheet()
styles.replaceSync(SHEET)
