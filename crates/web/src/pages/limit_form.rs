//! The form that sets a cluster-wide limit.

use baton_model::api::Problem;

/// What was typed, and what is wrong with it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LimitForm {
    pub name: String,
    pub capacity: String,
    pub name_error: Option<String>,
    pub capacity_error: Option<String>,
    /// Why a form was refused, if no field tells it.
    pub problem: Option<String>,
}

impl LimitForm {
    /// The form after a refusal, with each error at its field.
    #[must_use]
    pub fn refused(name: String, capacity: String, problem: Problem) -> Self {
        let at = |field: &str| {
            let found = problem.errors.iter().find(|error| error.field == field);
            found.map(|error| match &*error.hint {
                "" => error.message.clone(),
                hint => format!("{}; {hint}", error.message),
            })
        };
        let capacity_error = at("capacity")
            .or_else(|| at("rate"))
            .or_else(|| at("burst"));
        let name_error = at("name");
        let is_told = name_error.is_some() || capacity_error.is_some();
        Self {
            name,
            capacity,
            name_error,
            capacity_error,
            problem: (!is_told).then_some(problem.detail),
        }
    }

    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.problem.is_some() || self.name_error.is_some() || self.capacity_error.is_some()
    }
}

#[cfg(test)]
mod tests {
    use baton_model::api::FieldProblem;

    use super::*;

    #[test]
    fn an_error_is_at_its_field_with_its_hint() {
        let problem = |errors| Problem {
            kind: "invalid".to_owned(),
            title: "Invalid".to_owned(),
            status: 422,
            detail: "refused".to_owned(),
            errors,
        };
        let error = FieldProblem {
            field: "capacity".to_owned(),
            message: "it is no number".to_owned(),
            hint: "write 4".to_owned(),
        };
        let form = LimitForm::refused("db".to_owned(), "x".to_owned(), problem(vec![error]));
        assert_eq!(
            form.capacity_error.as_deref(),
            Some("it is no number; write 4")
        );
        assert_eq!((form.problem, form.name_error), (None, None));
        let form = LimitForm::refused(String::new(), String::new(), problem(Vec::new()));
        assert_eq!(form.problem.as_deref(), Some("refused"));
        assert!(!LimitForm::default().is_refused());
    }
}
