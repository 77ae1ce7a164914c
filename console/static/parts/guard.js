// Shows a message in the place of what cannot be shown, so that one malformed entry does not take the others with it.

import { html } from "../html.js";
import { Component } from "../vendor/preact.js";

/** Guards the components in it. It tries again when it is rendered again: the values may be others. */
export class Guard extends Component {
  static getDerivedStateFromError(err) {
    return { err };
  }

  componentWillReceiveProps() {
    this.setState({ err: undefined });
  }

  render({ children }, { err }) {
    return err ? html`<p class="problem">This cannot be shown: ${err.message}</p>` : children;
  }
}
