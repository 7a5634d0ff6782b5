// The one fake of Headroom, with its data and its behaviour. Component tests and `npm run dev` with
// ?fake use FakeBackend directly; the browser tests reach it over HTTP, through server.ts.
export { FakeBackend } from './backend';
export { fakeConversation, fakeFinished } from './cache';
export { fakeModel, hubModel } from './models';
export { fakeCache, fakeEngine, fakeState } from './state';
export { fakeJob } from './transfers';
