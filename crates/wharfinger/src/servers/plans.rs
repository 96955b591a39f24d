//! What a server runs: settled once, or made anew for each start.

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::launch::Plan;

/// What runs.
#[derive(Clone)]
pub enum Plans {
    /// The same each time.
    Fixed(Arc<Plan>),
    /// Made anew for each start.
    Made(Arc<dyn Prepare>),
}

/// Makes what runs, anew for each attempt: credentials, files and packages may be others by then (A184).
pub trait Prepare: Send + Sync + 'static {
    /// The plan as it is now; or why there is none, in words for people. Counts into the limit of the attempt, and is
    /// dropped when that is over. Secrets in it must be known to the redactor before this is done.
    fn prepare(&self) -> Pin<Box<dyn Future<Output = Result<Prepared, String>> + Send + '_>>;
}

/// What one attempt starts.
pub struct Prepared {
    /// The command.
    pub plan: Arc<Plan>,
    /// What is kept until nothing of the process is left, and dropped then: the files that were made for it, say.
    pub keeps: Option<Box<dyn Any + Send + Sync>>,
}

impl Plans {
    pub(super) async fn prepare(&self) -> Result<Prepared, String> {
        match self {
            Self::Fixed(plan) => Ok(Prepared {
                plan: plan.clone(),
                keeps: None,
            }),
            Self::Made(plans) => plans.prepare().await,
        }
    }
}

impl From<Plan> for Plans {
    fn from(plan: Plan) -> Self {
        Self::Fixed(Arc::new(plan))
    }
}

impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(plan) => f.debug_tuple("Fixed").field(plan).finish(),
            Self::Made(_) => f.write_str("Made"),
        }
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
