export { teardown as default } from './jest.js'
