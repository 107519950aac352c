"""The projects' routes of the admin API described."""

from collections.abc import Mapping
from functools import partial

from bridge_server.admin.projects import bodies
from bridge_server.admin.projects.description_shapes import (
    AccountDevicesAnswer,
    AccountLimitAnswer,
    NewProjectAnswer,
    NotificationTypeAnswer,
    NotificationTypesAnswer,
    ProjectAnalyticsAnswer,
    ProjectDetailsAnswer,
    ProjectsAnswer,
    ProjectSecretAnswer,
    ProjectWebhookAnswer,
    SubscriberAnswer,
    SubscribersAnswer,
)
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.projects.errors import (
    ProjectExistsError,
    ProjectNotFoundError,
    SecretNotFoundError,
    SubscriptionNotFoundError,
    TooManySecretsError,
    TooManyTypesError,
    TypeExistsError,
    TypeNotFoundError,
)
from bridge_server.projects.wire import SubscriptionShape
from bridge_server.web.description import (
    DescribedAnswer,
    Operation,
    Parameter,
    done,
    operation,
    page_parameters,
)

_DAY = {"type": "string", "format": "date"}


_operation = partial(operation, "Projects")

_PROJECTS = {
    "projects": _operation(
        "List projects",
        "Projects with their types, subscribers and figures, oldest first. Without `after` and `limit` it "
        "lists all of them, and the answer has no `next`.",
        DescribedAnswer(200, "The projects.", ProjectsAnswer),
        parameters=page_parameters(),
    ),
    "create-project": _operation(
        "Create a project",
        "Makes a project for an app, and its first secret, which is shown only in this answer.",
        DescribedAnswer(200, "The project and its secret.", NewProjectAnswer),
        body=bodies.ProjectShape,
        body_example={"name": "Example App", "project_id": "example-app"},
        problems=(ProjectExistsError,),
    ),
    "project": _operation(
        "Show a project",
        "A project with its types, its secrets without their texts, and its number of subscribers.",
        DescribedAnswer(200, "The project.", ProjectDetailsAnswer),
        problems=(ProjectNotFoundError,),
    ),
    "delete-project": _operation(
        "Delete a project",
        "Deletes it with its subscribers, its notifications and its figures.",
        *done("It is deleted."),
        problems=(ProjectNotFoundError,),
    ),
    "rotate-secret": _operation(
        "Make another secret",
        "A project may have two secrets, so that its backend can change from one to the other.",
        DescribedAnswer(200, "The secret, which is shown only in this answer.", ProjectSecretAnswer),
        problems=(ProjectNotFoundError, TooManySecretsError),
    ),
    "revoke-secret": _operation(
        "Revoke a secret",
        "The secret is refused from now on.",
        *done("It is revoked."),
        parameters=(Parameter("number", "The number of a secret.", place="path", example="1"),),
        problems=(ProjectNotFoundError, SecretNotFoundError),
    ),
    "limit-accounts": _operation(
        "Set a project's own limit per account",
        "How many notifications the project may send to one account: an average per hour, and a burst.",
        DescribedAnswer(200, "The limit.", AccountLimitAnswer),
        body=bodies.AccountLimitShape,
        body_example={"per_hour": 4, "burst": 20},
        problems=(ProjectNotFoundError,),
    ),
    "reset-account-limit": _operation(
        "Remove a project's own limit per account",
        "The server's limit holds again.",
        *done("It is removed."),
        problems=(ProjectNotFoundError,),
    ),
    "set-project-webhook": _operation(
        "Set the webhook for subscriptions",
        "Each change of a subscription is sent there, signed with the secret of the answer.",
        DescribedAnswer(
            200, "The webhook, and its secret, which is shown only in this answer.", ProjectWebhookAnswer
        ),
        body=bodies.WebhookShape,
        body_example={"url": "https://app.example.org/subscriptions"},
        problems=(ProjectNotFoundError,),
    ),
    "remove-project-webhook": _operation(
        "Remove the webhook for subscriptions",
        "Changes are sent no more.",
        *done("It is removed."),
        problems=(ProjectNotFoundError,),
    ),
    "analytics": _operation(
        "Show analytics",
        "Notifications that were sent in a period, and how many of them were read, by type and by day.",
        DescribedAnswer(200, "The figures.", ProjectAnalyticsAnswer),
        parameters=(
            Parameter("from", "The first day; by default 29 days before the last one.", _DAY),
            Parameter("to", "The last day; by default today. At most 366 days are counted.", _DAY),
        ),
        problems=(ProjectNotFoundError,),
    ),
}
_TYPES = {
    "types": _operation(
        "List notification types",
        "The types of notifications that accounts may choose.",
        DescribedAnswer(200, "The types.", NotificationTypesAnswer),
        problems=(ProjectNotFoundError,),
    ),
    "add-type": _operation(
        "Add a notification type",
        "Without `type_id` the id is made from the name.",
        DescribedAnswer(200, "The type.", NotificationTypeAnswer),
        body=bodies.TypeShape,
        body_example={"name": "Price alerts", "type_id": "price-alert"},
        problems=(ProjectNotFoundError, TypeExistsError, TooManyTypesError),
    ),
    "rename-type": _operation(
        "Rename a notification type",
        "The id stays.",
        DescribedAnswer(200, "The type.", NotificationTypeAnswer),
        body=bodies.TypeNameShape,
        body_example={"name": "Prices"},
        problems=(ProjectNotFoundError, TypeNotFoundError),
    ),
    "remove-type": _operation(
        "Remove a notification type",
        "Accounts that have chosen it receive the others. Notifications that were sent stay.",
        *done("It is removed."),
        problems=(ProjectNotFoundError, TypeNotFoundError),
    ),
}
_SUBSCRIBERS = {
    "project-subscribers": _operation(
        "List subscribers",
        "Subscribers with the types that they have chosen, in the order of their accounts.",
        DescribedAnswer(200, "A page.", SubscribersAnswer),
        parameters=(
            *page_parameters(),
            Parameter("search", "Only this account, this address, or accounts that begin so."),
        ),
        problems=(ProjectNotFoundError,),
    ),
    "subscribe-account": _operation(
        "Subscribe an account",
        "Subscribes the account, or changes its types. Without types it is all of them, later types too.",
        DescribedAnswer(200, "The subscription.", SubscriberAnswer),
        body=SubscriptionShape,
        body_example={"notification_types": ["price-alert"]},
        body_is_optional=True,
        problems=(ProjectNotFoundError,),
    ),
    "unsubscribe-account": _operation(
        "Unsubscribe an account",
        "Ends a subscription.",
        *done("The account does not subscribe any more."),
        problems=(InvalidInputError, ProjectNotFoundError, SubscriptionNotFoundError),
    ),
    "account-devices": _operation(
        "Show the devices of an account",
        "The state of deliveries to each device of an account, without addresses.",
        DescribedAnswer(200, "The devices.", AccountDevicesAnswer),
        problems=(InvalidInputError,),
    ),
}

PROJECT_OPERATIONS: Mapping[str, Operation] = {**_PROJECTS, **_TYPES, **_SUBSCRIBERS}
