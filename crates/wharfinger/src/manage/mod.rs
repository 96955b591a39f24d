//! Tools with which an agent manages itself: what they take, and what they may touch.
